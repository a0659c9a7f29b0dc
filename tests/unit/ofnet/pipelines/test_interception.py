"""What is sent to the agent and what it returns; no pod can send in its place."""

from dataclasses import replace

import pytest

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER
from ofnet.pipelines.packet_path.stages import DNS_RETURN_VLAN, ROUTER_MAC
from ofnet.trace.evaluator import PacketFields, Value, tables_of
from ofnet.world import ArpMode, Bridge, FwdMode, World
from tests.model.switch import Verdict, evaluate
from tests.unit.ofnet.pipelines.interception import MODES, PODS, dns
from tests.unit.ofnet.worlds import HOST_PORT, address, local, mac, remote

in_every_mode = pytest.mark.parametrize(("kind", "fwd_mode"), MODES)


def verdict(kind: Bridge, of: World, packet: PacketFields) -> Verdict:
    desired = Desired(kind)
    desired.update(of, EVERYTHING)
    return evaluate(tables_of(desired.flows.values()), packet)


def out(kind: Bridge, of: World, packet: PacketFields) -> list[int]:
    """Return the ports a packet leaves through."""
    return [leaving.port for leaving in verdict(kind, of, packet).sent]


@in_every_mode
def test_a_request_is_brought_up_and_what_is_sent_on_passes(
    kind: Bridge, fwd_mode: FwdMode
) -> None:
    here = replace(PODS, fwd_mode=fwd_mode)
    plain = replace(dns(), fields={**dns().fields, "udp_dst": 5353})
    for guard in (True, False):
        pods = replace(here, guard=guard)
        assert out(kind, pods, dns()) == [PORT_CONTROLLER]
        sent_on = out(kind, pods, dns(DNS_RETURN_VLAN))
        assert sent_on == out(kind, pods, plain)
        assert sent_on


@in_every_mode
@pytest.mark.parametrize(("sender", "source"), [(2, 1), (1, 2)])
def test_the_mark_of_what_is_sent_on_is_no_way_round_the_guard(
    kind: Bridge, fwd_mode: FwdMode, sender: int, source: int
) -> None:
    here = replace(PODS, fwd_mode=fwd_mode)
    forged = dns(DNS_RETURN_VLAN, sender=sender, source=source)
    assert out(kind, here, forged) == [PORT_CONTROLLER], "the agent passes nothing forged on"
    assert out(kind, replace(here, guard=False), forged) not in ([], [PORT_CONTROLLER])


def test_the_hosts_own_request_reaches_a_pod() -> None:
    private = local(2).nat_ip
    assert private is not None
    fields = {**dns().fields, "in_port": HOST_PORT.ofport, "eth_src": HOST_PORT.mac}
    assert out(Bridge.VXLAN, PODS, PacketFields({**fields, "ipv4_dst": private})) == [102]


@pytest.mark.parametrize(
    ("kind", "fwd_mode"), [mode for mode in MODES if mode != (Bridge.VLAN, FwdMode.BRIDGE)]
)
def test_arp_from_a_group_address_is_dropped(kind: Bridge, fwd_mode: FwdMode) -> None:
    sender = "01:00:5e:00:00:01"
    packet = arp(2, in_port=2, eth_src=sender, arp_sha=sender)
    found = verdict(kind, replace(PODS, fwd_mode=fwd_mode), packet)
    assert not found.sent
    assert not found.ambiguous


@in_every_mode
@pytest.mark.parametrize("arp_mode", list(ArpMode))
def test_an_address_known_here_and_elsewhere_has_one_mac(
    kind: Bridge, fwd_mode: FwdMode, arp_mode: ArpMode
) -> None:
    moved = replace(remote(2), mac=mac(99))
    both = replace(PODS, fwd_mode=fwd_mode, arp_mode=arp_mode, remote={moved.key: moved})
    found = verdict(kind, both, arp(2))
    assert not found.ambiguous
    if arp_mode is ArpMode.PROXY or fwd_mode is FwdMode.ROUTING:
        (answer,) = found.sent
        known_by = ROUTER_MAC if fwd_mode is FwdMode.ROUTING else mac(2)
        assert (answer.port, answer.packet.get("arp_sha")) == (101, known_by)


def arp(target: int, **other: Value) -> PacketFields:
    """Return the question of pod 1 for another."""
    return PacketFields(
        {
            "in_port": 101,
            "eth_src": mac(1),
            "eth_dst": "ff:ff:ff:ff:ff:ff",
            "eth_type": oxm.ETH_ARP,
            "arp_op": 1,
            "arp_spa": address(1),
            "arp_tpa": address(target),
            "arp_sha": mac(1),
            "arp_tha": "00:00:00:00:00:00",
            **other,
        }
    )
