"""Whatever the store says, no setting of the kernel takes an address of the underlay.

Random networks, endpoints and hosts come and go in random order while an agent converges. After
each step the look-ups of a kernel with these settings are computed: local addresses, the host's own
routes but its default ones, the agent's table with its exceptions, the default routes.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core import keys
from core.errors import ContivError
from core.ids import EndpointKey, HostLabel, endpoint_key
from core.tasks import supervisor
from netplugin.kernel.netlink.requests import Address
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from objdb.api import Change, Put
from objdb.connect import StoreAddress, StoreKind
from objdb.memory import MemoryBackend
from state import codec
from state.records import (
    Encap,
    GlobalRecord,
    HostRecord,
    NetworkRecord,
    NetworkType,
    ServiceInstance,
)
from state.watch import Removed
from tests.unit.netplugin.agent import Agent, Outside, build_agent
from tests.unit.netplugin.fakes import FakeLinks, Faults, Inside
from tests.unit.netplugin.records import HOST, endpoint, network

OWN = IPv4Address("192.168.2.10")
STORE, MASTER = ip_address("192.168.2.130"), ip_address("198.51.100.9")
HOP, HOP6 = ip_address("192.168.2.254"), ip_address("2001:db8:77::1")
PEERS = [ip_address("192.168.2.11"), ip_address("203.0.113.7")]
HOSTS = list(enumerate(PEERS, start=2))
UNDERLAY = [STORE, MASTER, HOP, HOP6, *PEERS, OWN]
MAIN = {
    ip_network("192.168.2.0/25"): "eth0",
    ip_network("2001:db8:77::/64"): "eth0",
    ip_network("0.0.0.0/0"): "eth0",
    ip_network("::/0"): "eth0",
}
AGENTS = {port_names.HOST_PORT, port_names.VLAN_HOST_PORT}


def lookup(links: FakeLinks, address: Address) -> str:
    """Return the link by which the host sends to an address; "local" for one of its own."""
    for held in links.own.values():
        for own in held.addresses:
            ends = own.network[0], own.network[-1]
            if address == own.ip or (own.version == 4 and address in ends):
                return "local"
    if address == OWN:
        return "local"
    own_routes = {subnet: link for subnet, link in MAIN.items() if subnet.prefixlen}
    if (found := _longest(own_routes, address)) is not None:
        return found
    table = [
        (route.subnet.prefixlen, -route.metric, name)
        for name, routes in links.routes.items()
        for route in routes
        if route.subnet.version == address.version and address in route.subnet
    ]
    if address in links.spared:
        table.append((address.max_prefixlen, -1, ""))
    if table and (name := max(table)[2]):
        return name
    return _longest(MAIN, address) or ""


def _longest(routes: Mapping[IPv4Network | IPv6Network, str], address: Address) -> str | None:
    fitting = [one for one in routes if one.version == address.version and address in one]
    return routes[max(fitting, key=lambda one: one.prefixlen)] if fitting else None


@dataclass(frozen=True)
class Step:
    """Something that happens: a record comes or goes, or the agent's loops run."""

    name: str
    do: Callable[[Agent], Any]
    whole: bool = False
    """Whether all that is known of other hosts is in the kernel afterwards."""

    def __repr__(self) -> str:
        return self.name


SUBNETS = ["192.168.2.0/24", "192.168.2.128/25", "192.168.2.130/32", "192.168.0.0/16"]
SUBNETS += ["198.51.100.0/24", "203.0.113.0/24", "203.0.113.4/30", "10.1.0.0/16", "192.168.2.8/30"]
SUBNETS6 = ["", "2001:db8:77::/64", "2001:db8::/32", "fd00:1::/64"]


def a_network(
    number: int, subnet: str, subnet6: str, encap: Encap, kind: NetworkType, *, gateway: bool
) -> NetworkRecord:
    four = IPv4Network(subnet)
    six = IPv6Network(subnet6) if subnet6 else None
    return replace(
        network(("contivh1", "n2", "n3")[number], encap=encap, tag=number + 1),
        type=kind,
        subnet=str(four.network_address),
        subnet_len=four.prefixlen,
        first=str(four[0]),
        last=str(four[-1]),
        gateway=str(four[1 % four.num_addresses]) if gateway else "",
        ipv6_subnet=str(six.network_address) if six else "",
        ipv6_subnet_len=six.prefixlen if six else 0,
    )


def _learn_network(agent: Agent, one: NetworkRecord) -> None:
    agent.learn(keys.network(one.id), one)


def _forget_network(agent: Agent, one: NetworkRecord) -> None:
    agent.records.apply(Removed(keys.network(one.id), one))


def _infra(agent: Agent, one: NetworkRecord, address: IPv4Address) -> None:
    """Have netmaster and store know an endpoint of this host on the network."""
    key = EndpointKey(f"{one.id}-{HOST}")
    made = replace(endpoint(nid=one.id, container=HOST), ip_address=str(address))
    made = replace(made, mac_address="02:02:" + address.packed.hex(":"))
    agent.outside.master.networks.add(one.id)
    agent.outside.master.endpoints[key] = made
    agent.learn(keys.endpoint(key), made)


def _pod(agent: Agent, number: int, one: NetworkRecord, address: Address) -> None:
    """Have a pod of this host, with a port."""
    made = replace(endpoint(number, nid=one.id), key=endpoint_key(one.id, f"c{number}"))
    if address.version == 4:
        made = replace(made, ip_address=str(address))
    else:
        made = replace(made, ipv6_address=str(address))
    agent.world.endpoints.put_port(made.key, LocalPort(record=made, ofport=number, number=number))


def _host(agent: Agent, number: int, address: Address) -> None:
    label = HostLabel(f"h{number}")
    record = HostRecord(label=label, control_ip=str(address), vtep_ip=str(address), vxlan_port=4789)
    agent.learn(keys.host(label), record)


async def converge(agent: Agent, only: int | None = None) -> None:
    """Run all loops of the host once, or one of them; what one refuses stops no other."""
    loops = [
        agent.clients.underlay_routes.converge,
        agent.host_access.converge,
        agent.host_access.converge_routes,
        agent.infra.converge,
    ]
    for work in loops if only is None else [loops[only]]:
        with suppress(ContivError):
            await work()


networks = st.builds(
    a_network,
    st.integers(0, 2),
    st.sampled_from(SUBNETS),
    st.sampled_from(SUBNETS6),
    st.sampled_from([Encap.VXLAN, Encap.VXLAN, Encap.VLAN]),
    st.sampled_from([NetworkType.DATA, NetworkType.DATA, NetworkType.INFRA]),
    gateway=st.sampled_from([True, True, False]),
)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    known = draw(st.lists(networks, min_size=1, max_size=4))
    found = [Step(f"host {one}", partial(_host, number=at, address=one)) for at, one in HOSTS]
    found = found if draw(st.booleans()) else []
    found += [Step(one.id, partial(_learn_network, one=one)) for one in known]
    for _ in range(draw(st.integers(3, 12))):
        one = draw(st.sampled_from(known))
        kinds = ["network", "gone", "infra", "infra", "pod", "pod", "host", "converge"]
        kind = draw(st.sampled_from(kinds))
        address = draw(st.sampled_from([*UNDERLAY, ip_address("10.1.0.7")]))
        if kind == "network":
            found.append(Step(f"{one.id} {one.subnet}", partial(_learn_network, one=one)))
        elif kind == "gone":
            found.append(Step(f"{one.id} gone", partial(_forget_network, one=one)))
        elif kind == "infra":
            inside = IPv4Network((one.subnet, one.subnet_len))
            four = draw(st.sampled_from([inside[0], inside[-1], inside[2 % inside.num_addresses]]))
            found.append(Step(f"infra {four}", partial(_infra, one=one, address=four)))
        elif kind == "pod":
            number = draw(st.integers(1, 3))
            pod = partial(_pod, number=number, one=one, address=address)
            found.append(Step(f"pod {address}", pod))
        elif kind == "host":
            number = draw(st.integers(2, 3))
            peer = draw(st.sampled_from(PEERS))
            found.append(Step(f"host {peer}", partial(_host, number=number, address=peer)))
        else:
            only = draw(st.sampled_from([None, 0, 1, 2, 3]))
            found.append(Step(f"converge {only}", partial(converge, only=only), whole=only is None))
    return [*found, Step("converge", converge, whole=True)]


def taken(agent: Agent, *, others: bool) -> Iterator[tuple[Address, str]]:
    """Yield the addresses of the underlay that go elsewhere than to their own places."""
    links = agent.outside.links
    for address in (STORE, MASTER, HOP, HOP6):
        if (way := lookup(links, address)) != "eth0":
            yield address, way
    for address in PEERS if others else ():
        label = next(
            (
                one
                for one in (HostLabel("h2"), HostLabel("h3"))
                if (record := agent.world.peers.record(one)) is not None
                and record.vtep_ip == str(address)
            ),
            None,
        )
        if label is not None and (way := lookup(links, address)) != "eth0":
            yield address, way
    if lookup(links, OWN) != "local":
        yield OWN, "away"


async def follow(found: Sequence[Step]) -> None:
    """Start an agent, have it all happen, and look after each step."""
    outside = Outside.new()
    members = (f"{STORE}:2379",)
    store = StoreAddress(StoreKind.ETCD, members, secure=False)
    outside.settings = replace(outside.settings, vtep_ip=OWN, ctrl_ip=OWN, store=store)
    for address in (*UNDERLAY, IPv4Address("192.0.2.1"), IPv6Address("2001:db8::1")):
        outside.links.led[address] = "eth0", HOP6 if address.version == 6 else HOP
    backend = MemoryBackend()
    master = ServiceInstance(service=keys.SERVICE_NETMASTER, address=str(MASTER), port=9999)
    put = Put(keys.service(master.service, master.address, 9999), codec.encode(master))
    await backend.commit([Change((), (put,))])
    async with supervisor() as sup:
        agent = await build_agent(outside, sup, store=backend)
        private = "172.19.0.0/16"
        modes = GlobalRecord(infra_type="", fwd_mode="routing", arp_mode="", pvt_subnet=private)
        agent.learn(keys.GLOBAL_CONFIG, modes)
        await agent.clients.underlay_routes.prepare()
        await agent.clients.underlay_routes.start(backend)
        agent.world.set_complete()
        for step in found:
            done = step.do(agent)
            if asyncio.iscoroutine(done):
                await done
                assert list(taken(agent, others=step.whole)) == [], step
    await backend.close()


@settings(max_examples=100, deadline=None)
@given(steps())
def test_no_address_of_the_underlay_is_taken(found: list[Step]) -> None:
    asyncio.run(follow(found))


def test_the_model_knows_what_takes_an_address() -> None:
    """Without the agent's care the same kernel would send to pods: the model is no tautology."""
    links = FakeLinks(Faults())
    assert lookup(links, STORE) == "eth0"
    links.routes["contivh0"] = [HostRoute(subnet=ip_network("192.168.2.128/25"), source=OWN)]
    assert lookup(links, STORE) == "contivh0"
    links.spared = {STORE}
    assert lookup(links, STORE) == "eth0"
    held = [IPv4Interface("192.168.2.131/31"), IPv4Interface(f"{HOP}/24")]
    links.own["infra"] = Inside("", [*held], [])
    assert [lookup(links, one) for one in (STORE, HOP)] == ["local", "local"]
