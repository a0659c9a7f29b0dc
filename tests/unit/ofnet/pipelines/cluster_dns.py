"""What tests of cluster dns share."""

from dataclasses import replace
from ipaddress import IPv4Address

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER
from ofnet.pipelines.features.cluster_dns import ENDS
from ofnet.pipelines.features.name_port import stand_in
from ofnet.trace.evaluator import PacketFields, tables_of
from ofnet.world import (
    Bridge,
    FwdMode,
    World,
)
from tests.model.switch import Verdict, evaluate
from tests.unit.ofnet.pipelines.interception import PODS, dns
from tests.unit.ofnet.pipelines.name_port import PORT, tcp
from tests.unit.ofnet.worlds import address, local

OWN = IPv4Address("10.96.0.2")


POD = 101


def cluster(fwd_mode: FwdMode, *, guard: bool = True) -> World:
    pods = {pod.key: replace(pod, group_id=number) for number in (1, 2) for pod in [local(number)]}
    return replace(
        PODS, fwd_mode=fwd_mode, guard=guard, local=pods, name_port=PORT, dns_address=OWN
    )


def asks(
    *, by_tcp: bool, tags: tuple[int, ...] = (), sender: int = 1, source: int = 1
) -> PacketFields:
    """Return a packet of a question to the agent's own address, at pod 1's port."""
    packet = tcp(sender=sender, source=source) if by_tcp else dns(sender=sender, source=source)
    return replace(packet, fields={**packet.fields, "ipv4_dst": OWN}, tags=tags)


def verdict(kind: Bridge, of: World, packet: PacketFields) -> Verdict:
    desired = Desired(kind)
    desired.update(of, EVERYTHING)
    found = evaluate(tables_of(desired.flows.values()), packet)
    assert not found.ambiguous
    return found


def is_asked(found: Verdict) -> bool:
    """Return whether a packet gets to the agent as a question that was judged."""
    if not found.sent or found.path[-1].table not in ENDS:
        return False
    (there,) = found.sent
    by_tcp = there.packet.get("ip_proto") == oxm.PROTO_TCP
    assert not there.packet.tags
    if not by_tcp:
        assert there.packet.get("ipv4_src") == address(1)
        return there.port == PORT_CONTROLLER
    assert there.packet.get("ipv4_src") == stand_in(POD, judged=True)
    return there.port == PORT.ofport and there.packet.get("ipv4_dst") == OWN
