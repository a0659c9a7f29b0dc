"""DNS of pods goes to the agent while it lives, and past it when it does not."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, ip_address
from types import MappingProxyType

import pytest

from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.openflow.actions import NO_PORT, PORT_CONTROLLER
from ofnet.pipelines.features.name_port import RELAYED_DSCP, sender_of, stand_in
from ofnet.pipelines.packet_path.stages import DNS_PORT, DNS_RETURN_VLAN
from ofnet.trace.evaluator import PacketFields, Sent, Value, tables_of
from ofnet.world import Bridge, FwdMode, NamePort, World
from tests.model.switch import evaluate
from tests.unit.ofnet.pipelines.interception import MODES, PODS, dns
from tests.unit.ofnet.pipelines.name_port import PORT, tcp
from tests.unit.ofnet.worlds import address, address6, local, mac, with_local

POD = 101
MARKED: Mapping[str, Value] = MappingProxyType({"ip_dscp": RELAYED_DSCP})
in_every_mode = pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
guarded_or_not = pytest.mark.parametrize("guard", [True, False])


def pods(fwd_mode: FwdMode, *, guard: bool = True) -> World:
    return replace(PODS, fwd_mode=fwd_mode, guard=guard, name_port=PORT)


def left(
    kind: Bridge, of: World, packet: PacketFields, broken: Collection[int] = ()
) -> tuple[Sent, ...]:
    desired = Desired(kind)
    desired.update(of, EVERYTHING)
    found = evaluate(tables_of(desired.flows.values()), packet, broken=broken)
    assert not found.ambiguous
    return found.sent


def ports(kind: Bridge, of: World, packet: PacketFields, broken: Collection[int] = ()) -> list[int]:
    return [sent.port for sent in left(kind, of, packet, broken)]


def elsewhere(packet: PacketFields) -> PacketFields:
    """Return the same for a port that nobody intercepts."""
    name = "udp_dst" if "udp_dst" in packet.fields else "tcp_dst"
    return replace(packet, fields={**packet.fields, name: 5353})


@in_every_mode
@guarded_or_not
def test_a_request_goes_to_the_agent_and_without_it_to_its_server(
    kind: Bridge, fwd_mode: FwdMode, guard: bool
) -> None:
    here = pods(fwd_mode, guard=guard)
    assert ports(kind, here, dns()) == [PORT_CONTROLLER]
    sent_on = ports(kind, here, elsewhere(dns()))
    assert sent_on
    assert ports(kind, here, dns(), broken=[PORT.ofport]) == sent_on
    assert ports(kind, here, dns(DNS_RETURN_VLAN)) == sent_on


SIX = replace(local(1), ip=None, ip6=address6(1), mac="02:06:00:00:00:01")


@in_every_mode
@guarded_or_not
@pytest.mark.parametrize("port", [PORT, None], ids=["port", "none"])
def test_a_request_by_ipv6_goes_to_the_agent(
    kind: Bridge, fwd_mode: FwdMode, guard: bool, port: NamePort | None
) -> None:
    here = replace(with_local(replace(PODS, fwd_mode=fwd_mode, guard=guard), SIX), name_port=port)
    fields: dict[str, Value] = {
        "in_port": SIX.ofport,
        "eth_src": SIX.mac,
        "eth_dst": mac(2),
        "eth_type": oxm.ETH_IPV6,
        "ipv6_src": address6(1),
        "ipv6_dst": address6(2),
        "ip_proto": oxm.PROTO_UDP,
        "udp_src": 40000,
        "udp_dst": DNS_PORT,
    }
    asked = PacketFields(fields)
    assert ports(kind, here, asked) == [PORT_CONTROLLER]
    spoofed = PacketFields({**fields, "ipv6_src": address6(3)})
    assert PORT_CONTROLLER not in ports(kind, here, spoofed), "in nobody else's name"
    if port is not None:
        assert PORT_CONTROLLER not in ports(kind, here, asked, broken=[port.ofport])
    returned = PacketFields(fields, (DNS_RETURN_VLAN,))
    assert PORT_CONTROLLER not in ports(kind, here, returned)


@in_every_mode
@guarded_or_not
def test_a_connection_goes_to_the_agent_and_without_it_to_its_server(
    kind: Bridge, fwd_mode: FwdMode, guard: bool
) -> None:
    here = pods(fwd_mode, guard=guard)
    (there,) = left(kind, here, tcp())
    assert there.port == PORT.ofport
    assert there.packet.get("eth_dst") == PORT.mac
    assert there.packet.get("ipv4_src") == stand_in(POD)
    assert there.packet.get("ipv4_dst") == address(2), "in the name of the server"
    sent_on = ports(kind, here, elsewhere(tcp()))
    assert sent_on
    assert ports(kind, here, tcp(), broken=[PORT.ofport]) == sent_on


@in_every_mode
@guarded_or_not
def test_a_connection_by_ipv6_goes_to_the_agent_and_back(
    kind: Bridge, fwd_mode: FwdMode, guard: bool
) -> None:
    both = replace(local(1), ip6=address6(1))
    base = replace(PODS, fwd_mode=fwd_mode, guard=guard, name_port=PORT)
    fields: dict[str, Value] = {
        "in_port": both.ofport,
        "eth_dst": mac(2),
        "eth_type": oxm.ETH_IPV6,
        "ipv6_src": address6(1),
        "ipv6_dst": address6(2),
        "ip_proto": oxm.PROTO_TCP,
        "tcp_src": 4000,
        "tcp_dst": DNS_PORT,
    }
    for pod in (SIX, both):
        here, own = with_local(base, pod), {**fields, "eth_src": pod.mac}
        (there,) = left(kind, here, PacketFields(own))
        assert (there.port, there.packet.get("eth_dst")) == (PORT.ofport, PORT.mac)
        assert there.packet.get("ipv6_src") == stand_in(pod.ofport, version=6)
        assert there.packet.get("ipv6_dst") == address6(2), "in the name of the server"
        assert PORT.ofport not in ports(kind, here, PacketFields(own), broken=[PORT.ofport])
        spoofed = PacketFields({**own, "ipv6_src": address6(3)})
        assert PORT.ofport not in ports(kind, here, spoofed), "in nobody else's name"
        relayed = left(kind, here, PacketFields({**own, "ip_dscp": RELAYED_DSCP}))
        assert PORT.ofport not in [sent.port for sent in relayed]
        assert {sent.packet.get("ip_dscp") for sent in relayed} <= {0}
        answer: dict[str, Value] = {
            "in_port": PORT.ofport,
            "eth_src": PORT.mac,
            "eth_dst": PORT.mac,
            "eth_type": oxm.ETH_IPV6,
            "ipv6_src": address6(2),
            "ipv6_dst": stand_in(pod.ofport, version=6),
            "ip_proto": oxm.PROTO_TCP,
            "tcp_src": DNS_PORT,
            "tcp_dst": 4000,
        }
        (back,) = left(kind, here, PacketFields(answer))
        assert back.port == pod.ofport
        assert (back.packet.get("eth_dst"), back.packet.get("ipv6_dst")) == (pod.mac, address6(1))
        unknown = {**answer, "ipv6_dst": stand_in(4711, version=6)}
        assert ports(kind, here, PacketFields(unknown)) == []


@in_every_mode
def test_an_answer_finds_its_pod(kind: Bridge, fwd_mode: FwdMode) -> None:
    fields: dict[str, Value] = {
        "in_port": PORT.ofport,
        "eth_src": PORT.mac,
        "eth_dst": PORT.mac,
        "ipv4_src": address(2),
        "ipv4_dst": stand_in(POD),
        "tcp_src": DNS_PORT,
        "tcp_dst": 4000,
    }
    answer = tcp(fields)
    (there,) = left(kind, pods(fwd_mode), answer)
    assert there.port == POD
    assert (there.packet.get("eth_dst"), there.packet.get("ipv4_dst")) == (mac(1), address(1))
    assert ports(kind, pods(fwd_mode), tcp({**fields, "tcp_src": 80})) == []
    unknown = tcp({**fields, "ipv4_dst": stand_in(4711)})
    assert ports(kind, pods(fwd_mode), unknown) == []


@in_every_mode
def test_what_the_agent_relays_reaches_the_server_unmarked(kind: Bridge, fwd_mode: FwdMode) -> None:
    here = pods(fwd_mode)
    relayed = left(kind, here, tcp(MARKED))
    assert [sent.port for sent in relayed] == ports(kind, here, elsewhere(tcp()))
    assert {sent.packet.get("ip_dscp") for sent in relayed} == {0}


@in_every_mode
@pytest.mark.parametrize(("sender", "source"), [(2, 1), (1, 2)])
@pytest.mark.parametrize("broken", [(), (PORT.ofport,)])
def test_nothing_is_a_way_round_the_guard(
    kind: Bridge, fwd_mode: FwdMode, sender: int, source: int, broken: tuple[int, ...]
) -> None:
    here = pods(fwd_mode)
    forged = [
        dns(sender=sender, source=source),
        dns(DNS_RETURN_VLAN, sender=sender, source=source),
        tcp(sender=sender, source=source),
        tcp(MARKED, sender=sender, source=source),
        replace(tcp(sender=sender, source=source), tags=(DNS_RETURN_VLAN,)),
    ]
    for packet in forged:
        assert set(ports(kind, here, packet, broken)) <= {PORT_CONTROLLER}


@in_every_mode
def test_a_port_that_comes_and_goes_changes_nothing_else(kind: Bridge, fwd_mode: FwdMode) -> None:
    here = pods(fwd_mode)
    change = Changes.of(ObjectKind.NAME_PORT)
    desired, fresh = Desired(kind), Desired(kind)
    without = replace(here, name_port=None)
    desired.update(without, EVERYTHING)
    before = dict(desired.flows)
    desired.update(here, change)
    fresh.update(here, EVERYTHING)
    assert desired.flows == fresh.flows
    desired.update(without, change)
    assert desired.flows == before


def test_stand_ins_tell_pods_apart() -> None:
    assert stand_in(0x0102) == IPv4Address("198.18.1.2")
    for judged in (False, True):
        assert sender_of(stand_in(0x7EFF, judged=judged)) == (0x7EFF, judged)
    assert len({stand_in(port, judged=judged) for port in (1, 2) for judged in (False, True)}) == 4
    for nobody in ("198.17.255.255", "198.20.0.1", "127.0.0.1", "100::2:0", "::1"):
        assert sender_of(ip_address(nobody)) == (NO_PORT, False)
    six = stand_in(0x7EFF, judged=True, version=6)
    assert (str(six), sender_of(six)) == ("100::1:7eff", (0x7EFF, True))
