"""Whatever the store says, no flow takes traffic for an address that hosts need for themselves.

Random records come and go beside an underlay that is known before, after or among them, in both
forwarding modes. Looked at are all flows of both bridges, what the agent answers and announces. A
builder that learns of all in another order must end with the same flows, and one without any
underlay must have them again when the underlay is gone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

from hypothesis import given, settings
from hypothesis import strategies as st

from core.ids import EndpointKey, HostLabel, NetworkId, NetworkName, TenantName
from netplugin.bgp.host_bgp import _addresses as announced_by_bgp
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.management import management_ports
from netplugin.world.underlay import MASTERS
from ofnet.changes import EVERYTHING, ObjectKind
from ofnet.desired import Desired
from ofnet.flows import Flow, FlowKey
from ofnet.openflow import oxm
from ofnet.openflow.actions import Conntrack, Nat
from ofnet.openflow.fields import VRF, Bits
from ofnet.packets.announcements import Announcements
from ofnet.packets.directory import Directory
from ofnet.trace.evaluator import PacketFields, Value, tables_of
from ofnet.world import (
    AccessPort,
    ArpMode,
    Bridge,
    FwdMode,
    HostPort,
    PolicySubject,
    Router,
    Uplink,
    Vtep,
    World,
)
from state.records import (
    Encap,
    EndpointRecord,
    GlobalRecord,
    HostRecord,
    NetworkRecord,
    NetworkType,
    ServiceRecord,
)
from state.underlay import AddressKind, UnderlayAddress
from tests.model.switch import evaluate
from tests.unit.netplugin.records import HOST, PEER, endpoint, host, network

OWN, MASTER, STORE = (IPv4Address(one) for one in ("10.1.0.1", "10.1.0.2", "10.1.0.3"))
HOP, OTHER, STORE6 = IPv4Address("10.1.0.4"), IPv4Address("10.1.0.5"), IPv6Address("2001:db8::3")
PRIVATE = IPv4Address("172.19.0.2")
KEPT = (OWN, MASTER, STORE, HOP, OTHER, STORE6, PRIVATE)
ELSEWHERE = IPv4Address("192.0.2.2")
FREE, FREE6 = IPv4Address("10.1.0.77"), IPv6Address("2001:db8::4d")
SUBNET = IPv4Network("172.19.0.0/16")
PORTS = {Bridge.VXLAN: 701, Bridge.VLAN: 702}
UPLINK = Uplink(ofport=900, mac="52:54:00:00:00:01")
NETWORKS = [
    replace(network(name, tenant, encap=encap, tag=tag, v6=True), type=kind)
    for tag, (name, tenant, encap, kind) in enumerate(
        (
            ("n1", "default", Encap.VXLAN, NetworkType.DATA),
            ("n2", "red", Encap.VLAN, NetworkType.DATA),
            ("n3", "default", Encap.VLAN, NetworkType.INFRA),
        ),
        start=1,
    )
]
MANAGED = (80, 9999, 9999)

Do = Callable[[WorldBuilder], object]


@dataclass(frozen=True)
class Fact:
    """Something that a builder learns."""

    name: str
    do: Do

    def __repr__(self) -> str:
        return self.name


def an_endpoint(number: int, nid: NetworkId, label: HostLabel, four: str, six: str) -> Fact:
    """Return an endpoint; one of this host has a port too."""
    name = str(label) if number == 3 else f"c{number}"
    made = replace(endpoint(number, host=label, nid=nid, container=name), ip_address=four)
    made = replace(made, ipv6_address=six, labels={"app": "web"}, container_id="c")
    return Fact(f"{nid} {name} on {label}: {four} {six}", lambda it: _endpoint(it, made, number))


def _endpoint(builder: WorldBuilder, record: EndpointRecord, number: int) -> None:
    builder.put(record)
    here = record.homing_host == HOST
    if not here:
        builder.endpoints.remove_port(record.key)
        return
    port = None if number == 3 else number
    builder.endpoints.put_port(record.key, LocalPort(record=record, ofport=number, number=port))


def a_service(address: str, tenant: str) -> Fact:
    record = ServiceRecord(
        tenant=TenantName(tenant),
        name="web",
        network=NetworkName("n1"),
        ports=("80:8080:TCP",),
        selectors={"app": "web"},
        ip_address=address,
    )
    return Fact(f"service {address} of {tenant}", lambda it: it.put(record))


def of_kubernetes(address: IPv4Address | IPv6Address, number: int) -> Fact:
    target = KubeTarget(address=FREE, port=8080)
    port = KubePort(protocol="TCP", port=number, targets=frozenset({target}))
    made = KubeService(namespace="shop", name="web", external_ips=(address,), ports=(port,))
    return Fact(f"Kubernetes' {address}:{number}", lambda it: it.put_kube_service(made))


def a_router(address: IPv4Address) -> Fact:
    made = Router(ofport=903, mac="52:54:00:00:00:03", ip=address, peer=IPv4Address("50.1.1.2"))
    return Fact(f"router {address}", lambda it: it.vlan.set_router(made))


def an_access(address: IPv4Address) -> Fact:
    made = AccessPort(ofport=201, mac="02:02:ac:13:00:03", ip=address)
    key = EndpointKey("n1.default-c1")
    return Fact(f"host1 {address}", lambda it: it.endpoints.put_access(key, made))


def other_host(address: IPv4Address) -> HostRecord:
    return replace(host(vtep_ip=str(address)), uplink_macs=("52:54:00:00:00:02",))


def the_underlay(builder: WorldBuilder) -> None:
    known = builder.underlay
    own = [UnderlayAddress(OWN, AddressKind.TUNNEL, "this host")]
    known.set_needed("this host", own)
    masters = [UnderlayAddress(MASTER, AddressKind.CONTROL, "master"), *_of_kind(AddressKind.STORE)]
    masters.append(UnderlayAddress(FREE, AddressKind.FURTHER, "master"))
    known.set_needed(MASTERS, masters)
    known.set_needed("next hops", [UnderlayAddress(HOP, AddressKind.NEXT_HOP, "this host")])
    builder.put(other_host(OTHER))
    builder.management.set_addresses("masters", [str(MASTER)])
    builder.management.set_ports("masters", management_ports([9999]))


def _of_kind(kind: AddressKind) -> list[UnderlayAddress]:
    return [UnderlayAddress(one, kind, "this host") for one in (STORE, STORE6, PRIVATE)]


def nothing_known(builder: WorldBuilder) -> None:
    for source in ("this host", MASTERS, "next hops"):
        builder.underlay.set_needed(source, [])
    builder.put(other_host(ELSEWHERE))
    builder.management.set_addresses("masters", [])
    builder.management.set_ports("masters", frozenset())


UNDERLAY = Fact("underlay", the_underlay)
fours = st.sampled_from([str(one) for one in (*KEPT, FREE) if one.version == 4])


def endpoints(network: NetworkRecord, host: HostLabel) -> st.SearchStrategy[Fact]:
    numbers, sixes = st.integers(1, 3), st.sampled_from(["", str(STORE6), str(FREE6)])
    return st.builds(an_endpoint, numbers, st.just(network.id), st.just(host), fours, sixes)


facts = st.one_of(
    *(endpoints(one, host) for one in NETWORKS for host in (HOST, PEER)),
    st.builds(a_service, fours, st.sampled_from(["default", "red"])),
    st.builds(
        of_kubernetes, st.sampled_from([MASTER, MASTER, *KEPT, FREE]), st.sampled_from(MANAGED)
    ),
    st.builds(a_router, fours.map(IPv4Address)),
    st.builds(an_access, st.sampled_from([PRIVATE, IPv4Address("172.19.0.9")])),
)


def begun(fwd_mode: FwdMode) -> WorldBuilder:
    builder = WorldBuilder(HOST, fwd_mode, {TenantName("default"): 1, TenantName("red"): 2})
    modes = GlobalRecord(infra_type="", fwd_mode=fwd_mode, arp_mode="", pvt_subnet=str(SUBNET))
    builder.put(modes)
    for one in NETWORKS:
        builder.put(one)
    for bridge in Bridge:
        sources = frozenset({OWN, SUBNET[-2]})
        mac = "02:02:ac:13:ff:fe"
        port = HostPort(ofport=PORTS[bridge], mac=mac, subnet=SUBNET, sources=sources)
        builder.endpoints.set_host_port(port, bridge)
    builder.vlan.set_uplinks([UPLINK])
    builder.put(other_host(ELSEWHERE))
    builder.vxlan.set_vteps({PEER: Vtep(host=PEER, ip=OTHER, ofport=50)})
    builder.set_complete()
    return builder


def kinds_of(flow: Flow) -> ObjectKind:
    return ObjectKind(flow.owner)


_TO: set[str] = {"ipv4_dst", "ipv6_dst", "arp_tpa", "nd_target"}
_OF_RECORDS = {
    ObjectKind.LOCAL,
    ObjectKind.REMOTE,
    ObjectKind.ACCESS,
    ObjectKind.SERVICE,
    ObjectKind.ROUTER,
    ObjectKind.POLICY_SUBJECT,
}
"""The kinds of objects whose flows lead to an address of theirs, not on to where it is."""


def takes(bridge: Bridge, flow: Flow) -> bool:
    """Tell whether a flow takes what is for an address of the underlay, from whom it must not."""
    fields = dict(flow.match.fields)
    if kinds_of(flow) not in _OF_RECORDS or not {fields.get(name) for name in _TO} & set(KEPT):
        return False
    if kinds_of(flow) is ObjectKind.SERVICE:
        return not only_tracks(flow)
    if bridge is Bridge.VLAN:
        return True
    if "in_port" in fields:  # what a pod itself sends to its own address is nobody else's
        return bool(fields["in_port"] == PORTS[bridge])
    metadata: Bits = fields.get("metadata", Bits(0, 0))
    return not metadata.mask & VRF.mask


def only_tracks(flow: Flow) -> bool:
    """Tell whether what is sent to a provider itself goes on where it would, noted by tracking."""
    match flow.instructions.actions:
        case (Conntrack(nat=Nat(end="src", address=None)),):
            return True
        case _:
            return False


def flows_of(builder: WorldBuilder, bridge: Bridge) -> dict[FlowKey, Flow]:
    desired = Desired(bridge)
    desired.update(builder.take(bridge)[0], EVERYTHING)
    assert not desired.faults
    return dict(desired.flows)


def look(builder: WorldBuilder, bridge: Bridge, desired: Desired) -> None:
    world, found = builder.take(bridge)[0], desired.flows
    assert not desired.faults
    assert [str(one) for one in found.values() if takes(bridge, one)] == []
    if bridge is Bridge.VLAN:
        directory = Directory()
        directory.update(world, EVERYTHING)
        assert not any(is_endpoint(directory, vrf, one) for vrf in (1, 2) for one in KEPT)
        assert not announced_by_bgp(world) & set(KEPT)
        assert not announced_by_arp(world) & set(KEPT)
        barred_ports_are_silent(found, builder)


def is_endpoint(directory: Directory, vrf: int, address: IPv4Address | IPv6Address) -> bool:
    return directory.endpoint(vrf, address) is not None


def announced_by_arp(world: World) -> set[IPv4Address]:
    before = replace(world, local={}, uplinks=(), arp_mode=ArpMode.PROXY)
    due = Announcements(Bridge.VLAN, before)
    due.update(world, EVERYTHING)
    frames = due.take_new()
    named = {IPv4Address(one.data[28:32]) for one in (*frames.learned, *frames.announced)}
    assert world.fwd_mode is FwdMode.ROUTING or len(named) <= len(world.local)
    return named


def barred_ports_are_silent(found: Mapping[FlowKey, Flow], it: WorldBuilder) -> None:
    """Nothing that comes by the port of a barred endpoint goes anywhere: nobody learns of it."""
    tables = tables_of(found.values())
    for key, port in it.endpoints.ports.items():
        if port.record.network not in it.vlan.networks or not taken(port.record):
            continue
        four = IPv4Address(port.record.ip_address)
        base: dict[str, Value] = {"in_port": port.ofport, "eth_src": port.record.mac_address}
        base |= {"eth_dst": "ff:ff:ff:ff:ff:ff"}
        arp: dict[str, Value] = {
            "eth_type": oxm.ETH_ARP,
            "arp_op": 2,
            "arp_spa": four,
            "arp_tpa": FREE,
        }
        arp |= {"arp_sha": port.record.mac_address, "arp_tha": "00:00:00:00:00:00"}
        ip: dict[str, Value] = {
            "eth_type": oxm.ETH_IPV4,
            "ipv4_src": four,
            "ipv4_dst": FREE,
            "ip_proto": 47,
        }
        for fields in (arp, ip):
            sent = evaluate(tables, PacketFields({**base, **fields})).sent
            assert sent == (), (key, fields, sent)


def taken(record: EndpointRecord) -> bool:
    return bool({ip_address(one) for one in _addresses(record)} & set(KEPT))


def _addresses(record: EndpointRecord) -> Iterator[str]:
    yield record.ip_address
    if record.ipv6_address:
        yield record.ipv6_address


def all_flows(builder: WorldBuilder) -> dict[Bridge, dict[FlowKey, Flow]]:
    return {bridge: flows_of(builder, bridge) for bridge in Bridge}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FwdMode), st.lists(facts, min_size=1, max_size=6), st.data())
def test_no_flow_takes_an_address_of_the_underlay(
    fwd_mode: FwdMode, learned: list[Fact], data: st.DataObject
) -> None:
    builder, at = begun(fwd_mode), data.draw(st.integers(0, len(learned)), "underlay known after")
    kept = {bridge: Desired(bridge) for bridge in Bridge}
    for number, fact in enumerate([*learned[:at], UNDERLAY, *learned[at:]]):
        fact.do(builder)
        for bridge, desired in kept.items() if data.draw(st.booleans()) else ():
            desired.update(*builder.take(bridge))
        if number >= at:
            for bridge, desired in kept.items():
                desired.update(*builder.take(bridge))
                look(builder, bridge, desired)
    for bridge, desired in kept.items():
        assert desired.flows == flows_of(builder, bridge), "changes are marked"
    fresh = begun(fwd_mode)
    for fact in (UNDERLAY, *learned):
        fact.do(fresh)
    assert all_flows(builder) == all_flows(fresh), "the order does not matter"
    assert bool(builder.faults()) is bool(fresh.faults())
    nothing_known(builder)
    without = begun(fwd_mode)
    for fact in learned:
        fact.do(without)
    for bridge, desired in kept.items():
        desired.update(*builder.take(bridge))
        assert desired.flows == flows_of(without, bridge), "it comes back by itself"
    assert builder.faults() == without.faults(), "only of services that name a pod's address"


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(FwdMode), st.lists(facts, min_size=1, max_size=6))
def test_what_has_no_such_address_has_the_flows_that_it_had(
    fwd_mode: FwdMode, learned: list[Fact]
) -> None:
    taking = [*map(str, KEPT), "c2 on h1"]  # the latter has the private address of port 2
    free = [one for one in learned if not any(text in one.name for text in taking)]
    plain, builder = begun(fwd_mode), begun(fwd_mode)
    for fact in free:
        fact.do(plain)
        fact.do(builder)
    for it in (plain, builder):
        it.management.set_addresses("masters", [str(MASTER)])
        it.put(other_host(OTHER))
    the_underlay(builder)
    plain.management.set_ports("masters", management_ports([9999]))
    assert all_flows(builder) == all_flows(plain)
    assert builder.faults() == []


def test_policies_judge_no_address_of_the_underlay_on_the_physical_network() -> None:
    builder = begun(FwdMode.ROUTING)
    subjects = {f"{vrf} {one}": PolicySubject(vrf, one) for vrf in (1, 2) for one in (MASTER, FREE)}
    builder.pod_policies.policies.subjects = subjects
    the_underlay(builder)
    found = {bridge: builder.take(bridge)[0].policy_subjects for bridge in Bridge}
    assert found[Bridge.VXLAN] == subjects, "within their VRF"
    assert {one.address for one in found[Bridge.VLAN].values()} == {FREE}


def test_the_private_address_is_that_of_the_pod_behind_port_2() -> None:
    assert port_names.private_address(SUBNET, 2).ip == PRIVATE
