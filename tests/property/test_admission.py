"""No accepted network holds an address that hosts need, or one of another tenant in one space.

Random stores: hosts and masters register, networks, endpoints and services are asked for in any
order. What is accepted is compared address by address, without the code that decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from hypothesis import given, settings
from hypothesis import strategies as st

from contivmodel.objects import Global
from core import keys
from core.errors import ContivError
from core.ids import HostLabel, NetworkId, ServiceKey
from netmaster.plan.endpoints import endpoint
from netmaster.plan.objects import globals as global_settings
from netmaster.plan.objects import network, service
from state import codec
from state.records import HostRecord, NetworkRecord, ServiceInstance
from tests.unit.netmaster.scene import NOW, Scene, a_network, a_service, wanted

TENANTS = ("red", "blue")
addresses = st.integers(0, 15).map("10.0.0.{}".format)
subnets = (
    st.tuples(st.integers(0, 15), st.integers(28, 30)).map(
        lambda part: str(IPv4Network((f"10.0.0.{part[0]}", part[1]), strict=False))
    )
    | st.tuples(st.integers(1, 14), st.integers(1, 14)).map(
        lambda ends: f"10.0.0.{min(ends)}-10.0.0.{max(ends)}/28"
    )
    | st.integers(0, 3).map("10.0.{}.0/24".format)
)
hosts = st.builds(
    lambda number, control, vtep, more, hops: HostRecord(
        label=HostLabel(f"h{number}"),
        control_ip=control,
        vtep_ip=vtep,
        vxlan_port=4789,
        addresses=tuple(more),
        next_hops=tuple(hops),
    ),
    st.integers(1, 3),
    addresses,
    addresses,
    st.lists(addresses, max_size=2),
    st.lists(addresses, max_size=1),
)
masters = st.builds(
    lambda address, store: ServiceInstance(
        service="netmaster", address=address, port=9999, store=tuple(store)
    ),
    addresses,
    st.lists(addresses, max_size=1),
)
networks = st.builds(
    lambda name, tenant, subnet, encap, kind, gateway: a_network(
        name, subnet, tenant_name=tenant, encap=encap, nw_type=kind, gateway=gateway
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(TENANTS),
    subnets,
    st.sampled_from(["vlan", "vxlan"]),
    st.sampled_from(["data", "data", "infra"]),
    st.just("") | addresses,
)
endpoints = st.tuples(
    st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(TENANTS), st.just("") | addresses
)


@dataclass
class AdmittedHolders:
    """A cluster, and what is registered in it."""

    scene: Scene
    routed: bool
    needed: dict[str, tuple[set[str], set[str]]] = field(default_factory=dict)
    """By holder: its own addresses, and its next hops."""
    number: int = 0

    def register(self, record: HostRecord | ServiceInstance) -> None:
        if isinstance(record, HostRecord):
            key = keys.host(record.label)
            own = {record.control_ip, record.vtep_ip, *record.addresses}
        else:
            key = keys.service(record.service, record.address, record.port)
            own = {record.address, *record.store}
        self.number += 1
        self.scene.view.underlay.put(key, self.number, codec.encode(record))
        self.needed[key] = own, set(record.next_hops)

    @property
    def own(self) -> set[str]:
        return {one for own, _ in self.needed.values() for one in own}

    @property
    def hops(self) -> set[str]:
        return {one for _, hops in self.needed.values() for one in hops}


def pods(record: NetworkRecord) -> set[str]:
    """Return the addresses that belong to a network: for vlan networks those that it gives."""
    whole = IPv4Network((record.subnet, record.subnet_len))
    if record.encap == "vlan" and record.type == "data" and record.bounded:
        first, last = int(IPv4Address(record.first)), int(IPv4Address(record.last))
        return {str(IPv4Address(one)) for one in range(first, last + 1)} | {record.gateway} - {""}
    return set(map(str, whole))


def wrong(holders: AdmittedHolders, record: NetworkRecord) -> Iterator[str]:
    """Yield what is wrong with a network that was accepted now."""
    held = pods(record)
    yield from held & holders.own
    beside = record.encap == "vlan" and record.type == "data"
    yield from held & holders.hops - ({record.gateway} if beside else set())
    subnet = IPv4Network((record.subnet, record.subnet_len))
    for other in holders.scene.view.networks.values():
        shares = holders.routed and record.encap == other.encap == "vlan"
        if shares and other.tenant != record.tenant:
            theirs = IPv4Network((other.subnet, other.subnet_len))
            yield from {other.id} if subnet.overlaps(theirs) else ()


@given(
    st.booleans(),
    st.lists(
        st.one_of(networks, networks, networks, hosts, masters, endpoints), min_size=8, max_size=25
    ),
)
@settings(max_examples=300, deadline=None)
def test_nothing_that_is_accepted_takes_an_address_that_hosts_need(
    routed: bool, asked: list[object]
) -> None:
    holders = AdmittedHolders(Scene(), routed)
    scene = holders.scene
    mode = "routing" if routed else "bridge"
    current = scene.read(Global.kind, "global")
    scene.do(global_settings.update, current.model_copy(update={"fwd_mode": mode}))
    for tenant in TENANTS:
        scene.tenant(tenant)
    for number, one in enumerate(asked):
        try:
            if isinstance(one, HostRecord | ServiceInstance):
                holders.register(one)
            elif isinstance(one, tuple):
                name, tenant, address = one
                pod = wanted(f"c{number}", name, ip_address=address, tenant=tenant)
                given_one = scene.do(endpoint.create, pod, NOW)
                assert given_one.ip_address not in holders.own
                vip = a_service(f"s{number}", name, ip_address=address, tenant_name=tenant)
                scene.do(service.create, vip)
                assert (
                    scene.view.services[ServiceKey(f"s{number}:{tenant}")].ip_address
                    not in holders.own
                )
            else:
                made = scene.do(network.create, one)
                nid = NetworkId(f"{made.network_name}.{made.tenant_name}")
                assert list(wrong(holders, scene.view.networks[nid])) == []
        except ContivError:
            continue
