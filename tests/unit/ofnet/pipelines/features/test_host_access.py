"""A pod's own interface to its host: to the host's port and from it, and nowhere else."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core.ids import EndpointKey
from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.trace.evaluator import PacketFields, Value, tables_of
from ofnet.world import AccessPort, Bridge, FwdMode, World
from tests.model.switch import Verdict, evaluate
from tests.unit.ofnet.worlds import HOST_PORT, local, world

ANN, BOB = (
    AccessPort(
        ofport=200 + number,
        mac=f"02:02:ac:13:00:{number:02x}",
        ip=IPv4Address(f"172.19.0.{number}"),
    )
    for number in (1, 2)
)
PODS = replace(
    world(here=(local(1), local(2))),
    guard=True,
    access={EndpointKey("ann"): ANN, EndpointKey("bob"): BOB},
)
OUTSIDE = IPv4Address("192.0.2.1")
in_both_modes = pytest.mark.parametrize("fwd_mode", list(FwdMode))


def verdict(fwd_mode: FwdMode, packet: PacketFields) -> Verdict:
    desired = Desired(Bridge.VXLAN)
    desired.update(replace(PODS, fwd_mode=fwd_mode), EVERYTHING)
    assert not desired.faults
    found = evaluate(tables_of(desired.flows.values()), packet)
    assert not found.ambiguous
    return found


def out(fwd_mode: FwdMode, packet: PacketFields) -> list[int]:
    return [leaving.port for leaving in verdict(fwd_mode, packet).sent]


def ip(
    source: IPv4Address, target: IPv4Address, *, port: int, mac: str, **more: Value
) -> PacketFields:
    fields: dict[str, Value] = {
        "in_port": port,
        "eth_src": mac,
        "eth_dst": HOST_PORT.mac,
        "eth_type": oxm.ETH_IPV4,
        "ipv4_src": source,
        "ipv4_dst": target,
        **more,
    }
    return PacketFields(fields)


def from_ann(target: IPv4Address, **more: Value) -> PacketFields:
    return ip(ANN.ip, target, port=ANN.ofport, mac=ANN.mac, **more)


@in_both_modes
@pytest.mark.parametrize("target", [OUTSIDE, HOST_PORT.address])
def test_what_it_sends_goes_to_the_host(fwd_mode: FwdMode, target: IPv4Address) -> None:
    assert out(fwd_mode, from_ann(target)) == [HOST_PORT.ofport]
    asked = {"ip_proto": oxm.PROTO_UDP, "udp_src": 4000, "udp_dst": 53}
    assert out(fwd_mode, from_ann(target, **asked)) == [HOST_PORT.ofport], "DNS is the host's too"


@in_both_modes
@pytest.mark.parametrize("target", [OUTSIDE, HOST_PORT.address])
def test_what_it_sends_bears_its_groups_mark(fwd_mode: FwdMode, target: IPv4Address) -> None:
    marked = replace(PODS, fwd_mode=fwd_mode, access={EndpointKey("ann"): replace(ANN, dscp=10)})
    (leaving,) = evaluate(tables_of(flows_of(marked).flows.values()), from_ann(target)).sent
    assert (leaving.port, leaving.packet.get("ip_dscp")) == (HOST_PORT.ofport, 10)


@in_both_modes
def test_no_other_private_address_is_reached(fwd_mode: FwdMode) -> None:
    for target in (BOB.ip, IPv4Address("172.19.3.4")):
        assert out(fwd_mode, from_ann(target)) == []


@in_both_modes
def test_under_its_own_address_alone(fwd_mode: FwdMode) -> None:
    own = from_ann(OUTSIDE)
    for forged in ({"ipv4_src": BOB.ip}, {"eth_src": BOB.mac}):
        assert out(fwd_mode, PacketFields({**own.fields, **forged})) == []


@in_both_modes
def test_what_the_host_sends_reaches_the_pod_there(fwd_mode: FwdMode) -> None:
    packet = ip(OUTSIDE, ANN.ip, port=HOST_PORT.ofport, mac=HOST_PORT.mac)
    (leaving,) = verdict(fwd_mode, packet).sent
    assert (leaving.port, leaving.packet.get("eth_dst")) == (ANN.ofport, ANN.mac)
    assert leaving.packet.get("ipv4_dst") == ANN.ip, "nothing is translated"


@in_both_modes
def test_pod_and_host_find_each_other(fwd_mode: FwdMode) -> None:
    question: dict[str, Value] = {"eth_type": oxm.ETH_ARP, "arp_op": 1}
    asks: dict[str, Value] = {
        **question,
        "in_port": ANN.ofport,
        "eth_src": ANN.mac,
        "arp_sha": ANN.mac,
        "arp_spa": ANN.ip,
        "arp_tpa": HOST_PORT.address,
    }
    assert out(fwd_mode, PacketFields(asks)) == [HOST_PORT.ofport]
    assert HOST_PORT.ofport not in out(fwd_mode, PacketFields({**asks, "arp_spa": BOB.ip}))
    asked: dict[str, Value] = {
        **question,
        "in_port": HOST_PORT.ofport,
        "eth_src": HOST_PORT.mac,
        "arp_sha": HOST_PORT.mac,
        "arp_spa": HOST_PORT.address,
        "arp_tpa": ANN.ip,
    }
    assert out(fwd_mode, PacketFields(asked)) == [ANN.ofport]


def test_the_last_address_is_the_hosts() -> None:
    assert str(HOST_PORT.address) == "172.19.255.254"


def flows_of(of: World) -> Desired:
    desired = Desired(Bridge.VXLAN)
    desired.update(of, EVERYTHING)
    return desired


@in_both_modes
def test_without_the_hosts_port_there_are_no_flows(fwd_mode: FwdMode) -> None:
    without = replace(PODS, fwd_mode=fwd_mode, host_port=None)
    nobody = replace(without, access={})
    assert flows_of(without).flows == flows_of(nobody).flows
    desired = flows_of(without)
    desired.update(replace(without, host_port=HOST_PORT), Changes.of(ObjectKind.HOST_PORT))
    assert desired.flows == flows_of(replace(PODS, fwd_mode=fwd_mode)).flows
