"""What tests of name port share."""

from collections.abc import Mapping
from types import MappingProxyType

from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import DNS_PORT
from ofnet.trace.evaluator import PacketFields, Value
from ofnet.world import NamePort
from tests.unit.ofnet.pipelines.interception import dns
from tests.unit.ofnet.worlds import address, mac

PORT = NamePort(ofport=32574, mac="06:02:00:00:00:35")


NOTHING: Mapping[str, Value] = MappingProxyType({})


def tcp(more: Mapping[str, Value] = NOTHING, *, sender: int = 1, source: int = 1) -> PacketFields:
    """Return a segment of pod 1's connection to a server on pod 2, with other fields."""
    fields = {name: value for name, value in dns().fields.items() if not name.startswith("udp")}
    fields |= {"ip_proto": oxm.PROTO_TCP, "tcp_src": 4000, "tcp_dst": DNS_PORT}
    fields |= {"eth_src": mac(sender), "ipv4_src": address(source)}
    return PacketFields(fields | dict(more))
