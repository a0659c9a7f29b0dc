"""What tests of interception share."""

from dataclasses import replace

from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import DNS_PORT
from ofnet.trace.evaluator import PacketFields, Value
from ofnet.world import Bridge, FwdMode, Uplink
from tests.unit.ofnet.worlds import address, local, mac, world

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]


PODS = replace(
    world(here=(local(1), local(2))),
    guard=True,
    uplinks=(Uplink(ofport=30, mac="52:54:00:00:00:0a"),),
)


def dns(*tags: int, sender: int = 1, source: int = 1) -> PacketFields:
    """Return a request of pod 1 to pod 2 for a name."""
    fields: dict[str, Value] = {
        "in_port": 101,
        "eth_src": mac(sender),
        "eth_dst": mac(2),
        "eth_type": oxm.ETH_IPV4,
        "ipv4_src": address(source),
        "ipv4_dst": address(2),
        "ip_proto": oxm.PROTO_UDP,
        "udp_src": 4000,
        "udp_dst": DNS_PORT,
    }
    return PacketFields(fields, tags)
