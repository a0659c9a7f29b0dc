"""An agent as `netplugin.startup` builds it, on fake clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType

from core.ids import GroupName
from core.retry import begin_loops
from core.tasks import Supervisor, supervisor
from netplugin.bgp.host_bgp import HostBgp
from netplugin.bridges.guards import host_guard, pod_guard
from netplugin.bridges.host import host_names
from netplugin.bridges.host.host_access import HostAccess
from netplugin.bridges.host.host_ports import HostPorts
from netplugin.bridges.host.infra import Infra
from netplugin.bridges.host.underlay_routes import UnderlayRoutes
from netplugin.bridges.reconciler import Reconciler
from netplugin.bridges.record_events import RecordEvents
from netplugin.bridges.services.stale_datagrams import StaleDatagrams
from netplugin.bridges.uplink.port_reconciler import PortReconciler
from netplugin.cni.request import PodRequest
from netplugin.cni.server import CniHandlers
from netplugin.kernel.address_watch import AddressWatch
from netplugin.kernel.conntrack import End
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.firewall.foreign_rules import Refusal
from netplugin.kernel.firewall.iptables import Chain
from netplugin.kernel.firewall.packet_rules import Way
from netplugin.kernel.host_watches import HostWatches
from netplugin.kernel.links.link_counters import LinkCount
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.routes.route_watch import RouteWatch
from netplugin.masters.progress import Progress
from netplugin.ovsdb import PortSpec
from netplugin.pods.garbage_collection import GarbageCollector
from netplugin.pods.handler import Pods
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.host_port_mappings import mapping_rules
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.registry.endpoint_registry import EndpointRegistry
from netplugin.pods.teardown import Teardown
from netplugin.settings import AgentSettings
from netplugin.startup.clients import Clients, HostTools
from netplugin.startup.context import AgentTiming, Context
from netplugin.startup.dataplane import Dataplane, build_dataplane
from netplugin.startup.host_services import HostServices, build_host_services
from netplugin.startup.pod_services import PodServices, build_pod_services
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from objdb.api import Backend
from objdb.memory import MemoryBackend
from ofnet.world import Bridge, FwdMode
from state.intents import Fact
from state.records import NetworkRecord, Record
from state.watch import Changed
from tests.bed.waiting import WITHIN
from tests.unit.bgp_router import FakeRouter
from tests.unit.netplugin.fakes import (
    FakeChains,
    FakeControl,
    FakeFirewall,
    FakeJournal,
    FakeLinks,
    FakeMaster,
    FakeOvsdb,
    FakeSwitch,
    Faults,
)
from tests.unit.netplugin.records import HOST, asking, interface, network
from tests.unit.netplugin.starts import SETTINGS

NOTHING_LEFT: tuple[object, ...] = ({}, {}, {}, {}, set())


@dataclass(slots=True, kw_only=True)
class Outside:
    """What outlives an agent: the host, its switch, netmaster."""

    faults: Faults
    journal: FakeJournal
    links: FakeLinks
    ovsdb: FakeOvsdb
    firewall: FakeFirewall
    port_rules: FakeFirewall
    chains: FakeChains
    master: FakeMaster
    switches: dict[Bridge, FakeSwitch]
    router: FakeRouter
    settings: AgentSettings
    timing: AgentTiming = field(default_factory=AgentTiming)
    other_firewalls: list[Refusal] = field(default_factory=list)
    ways_asked: list[Way] = field(default_factory=list)
    """For which ways the rules of others were read last."""
    routing_localnet: set[str] = field(default_factory=set)
    ports_in_use: set[tuple[object, ...]] = field(default_factory=set)
    """Protocol, address and number of ports that programs of the host have."""
    link_counts: dict[str, LinkCount] = field(default_factory=dict)
    """What the kernel has counted of links, by their names."""
    ways: list[tuple[dict[End, frozenset[End]], set[End]]] = field(default_factory=list)
    """Where datagrams were led at each sweep of connection tracking, and from where before."""

    @classmethod
    def new(cls) -> "Outside":
        faults = Faults()
        links = FakeLinks(faults)
        return cls(
            faults=faults,
            journal=FakeJournal(faults),
            links=links,
            ovsdb=FakeOvsdb(faults, links),
            firewall=FakeFirewall(faults),
            port_rules=FakeFirewall(faults),
            chains=FakeChains(faults),
            master=FakeMaster(faults),
            switches={bridge: FakeSwitch(bridge, faults) for bridge in Bridge},
            router=FakeRouter(),
            settings=replace(
                SETTINGS, host=HOST, vtep_ip=IPv4Address("192.168.2.10"), vxlan_port=4789
            ),
        )

    def set_timing(self, **pods: float) -> None:
        """Change time limits of the agents that are built from now on."""
        self.timing = replace(self.timing, pods=replace(self.timing.pods, **pods))

    def sweep_datagrams(self, ways: Mapping[End, frozenset[End]], former: Collection[End]) -> int:
        self.ways.append((dict(ways), set(former)))
        return 0

    def clients(self, store: Backend) -> Clients:
        """Return what `netplugin.startup.clients` connects to, as fakes."""
        routes = UnderlayRoutes(self.settings, self.links, resolve=pod_guard.resolve)
        return Clients(
            store=store,
            ovsdb=self.ovsdb,
            vswitchd=FakeControl("3.1.3"),
            links=self.links,
            journal=self.journal,
            host_ports=HostPorts(self.ovsdb, self.links, routes.known),
            underlay_routes=routes,
            watches=idle_watches(self.links),
            tools=FakeTools(self),
            datagrams=StaleDatagrams(self.sweep_datagrams),
            dial_bgp=self.router.connect,
        )


class FakeTools(HostTools):
    """The rules and settings of a host that is faked."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def iptables(self, chains: Collection[Chain]) -> FakeFirewall:
        out = self._outside
        if chains in (pod_guard.CHAINS, host_guard.CHAINS, host_names.CHAINS):
            return FakeFirewall(out.faults)
        return out.port_rules if chains is mapping_rules.CHAINS else out.firewall

    def chains(self, _prefix: str) -> FakeChains:
        return self._outside.chains

    def link_counters(self, beginnings: tuple[str, ...]) -> Mapping[str, LinkCount]:
        counted = self._outside.link_counts.items()
        return {name: count for name, count in counted if name.startswith(beginnings)}

    async def route_localnet(self, link: str, *, wanted: bool = True) -> None:
        held = self._outside.routing_localnet
        (held.add if wanted else held.discard)(link)

    async def refusals(self, ways: Sequence[Way], _links: Collection[str]) -> list[Refusal]:
        self._outside.ways_asked = [*ways]
        return self._outside.other_firewalls

    def port_in_use(self, *port: object) -> bool:
        return port in self._outside.ports_in_use


def idle_watches(links: KernelLinks) -> HostWatches:
    """Return watches that hear of nothing until they run."""
    return HostWatches(
        firewall=FirewallWatch(),
        routes=RouteWatch(lambda _link: False),
        addresses=AddressWatch(links),
    )


@dataclass(slots=True, kw_only=True)
class Agent:
    """One run of the agent."""

    outside: Outside
    context: Context
    clients: Clients
    dataplane: Dataplane
    host_services: HostServices
    pod_services: PodServices
    base: set[object] = field(default_factory=set)
    """The flows every bridge has."""

    @property
    def sup(self) -> Supervisor:
        return self.context.supervisor

    @property
    def world(self) -> WorldBuilder:
        return self.dataplane.world

    @property
    def progress(self) -> Progress:
        return self.dataplane.progress

    @property
    def reconciler(self) -> Reconciler:
        return self.dataplane.reconciler

    @property
    def records(self) -> RecordEvents:
        return self.dataplane.records

    @property
    def ports(self) -> PortReconciler:
        return self.dataplane.ports

    @property
    def host_access(self) -> HostAccess:
        return self.host_services.host_access

    @property
    def infra(self) -> Infra:
        return self.host_services.infra

    @property
    def bgp(self) -> HostBgp:
        return self.host_services.bgp

    @property
    def pods(self) -> Pods:
        return self.pod_services.pods

    @property
    def calls(self) -> CniHandlers:
        return self.pod_services.calls

    @property
    def registry(self) -> EndpointRegistry:
        return self.pod_services.host.registry

    @property
    def mtus(self) -> PodMtus:
        return self.pod_services.mtus

    @property
    def pod_ports(self) -> PodPorts:
        return self.pod_services.ports

    @property
    def teardown(self) -> Teardown:
        return self.pod_services.pods.teardown

    @property
    def garbage_collector(self) -> GarbageCollector:
        return self.pod_services.garbage_collector

    @property
    def host_interfaces(self) -> HostInterfaces:
        return self.pod_services.host_interfaces

    def learn(self, key: str, record: Fact) -> None:
        """Have the store tell of a record."""
        self.records.apply(Changed(key, record, None))

    def traces(self) -> tuple[object, ...]:
        """Return all there is of pods, anywhere."""
        out = self.outside
        flows = {key for switch in out.switches.values() for key in switch.table}
        return (
            dict(out.links.there),
            {name: row.bridge for name, row in out.ovsdb.ports().items()},
            dict(out.journal.entries),
            dict(out.master.endpoints),
            flows - self.base,
        )


async def build_agent(
    outside: Outside,
    sup: Supervisor,
    networks: tuple[NetworkRecord, ...] = (),
    *,
    store: Backend | None = None,
    macs: Mapping[str, str] = MappingProxyType({}),
    services: IPv4Network | None = None,
) -> Agent:
    """Return an agent that has read its journal and knows these networks, as before a resync."""
    context = Context(
        settings=outside.settings,
        version="1",
        supervisor=sup,
        stack=AsyncExitStack(),
        service_subnet=services,
        timing=outside.timing,
        loops=begin_loops(),
    )
    clients = outside.clients(store or MemoryBackend())
    dataplane = await build_dataplane(
        context, clients, outside.switches, FwdMode.ROUTING, macs, scope=None
    )
    for record in networks:
        dataplane.world.put(record)
    pod_services = await build_pod_services(context, clients, dataplane, outside.master)
    return Agent(
        outside=outside,
        context=context,
        clients=clients,
        dataplane=dataplane,
        host_services=build_host_services(context, clients, dataplane, pod_services.host),
        pod_services=pod_services,
    )


def start_bridges(agent: Agent) -> None:
    """Run the OpenFlow agents of both bridges."""
    agent.sup.supervise("megaflows", agent.dataplane.bridges.purger.run())
    for bridge, bridge_agent in agent.dataplane.agents.items():
        agent.sup.supervise(f"bridge {bridge}", bridge_agent.run())


@asynccontextmanager
async def running(
    outside: Outside,
    networks: tuple[NetworkRecord, ...] = (network(),),
    *,
    macs: Mapping[str, str] = MappingProxyType({}),
    services: IPv4Network | None = None,
    known: tuple[Record, ...] = (),
) -> AsyncIterator[Agent]:
    """Run an agent from its journal on, as the daemon starts it; `known` is in the store then."""
    async with supervisor() as sup:
        agent = await build_agent(outside, sup, networks, macs=macs, services=services)
        start_bridges(agent)
        for fact in known:
            agent.world.put(fact)
        for record in outside.master.endpoints.values():
            agent.world.put(record)
        agent.pod_ports.publish()
        agent.bgp.publish()
        await agent.host_services.pod_guard.start()
        agent.world.set_complete()
        sup.supervise("flows", agent.reconciler.run())
        await agent.reconciler.flush()
        if not agent.registry.keys():
            agent.base = {key for s in outside.switches.values() for key in s.table}
        yield agent
        assert sup.spawn_failures == 0
        assert not sup.stopping


async def left_nothing(agent: Agent) -> None:
    """See that nothing is left anywhere, now or soon."""
    await eventually(lambda: not agent.outside.faults.pending)
    await eventually(lambda: agent.traces() == NOTHING_LEFT)
    await eventually(lambda: not agent.pod_ports.used_numbers())
    assert agent.registry.keys() == frozenset()


async def eventually(holds: Callable[[], bool], seconds: float = WITHIN) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.002)


async def stays(holds: Callable[[], bool], seconds: float = 0.05) -> None:
    """See that something holds for a while."""
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        assert holds()
        await asyncio.sleep(0.002)


async def turns(count: int = 20) -> None:
    """Run the event loop so many times: what needs no waiting is done then."""
    for _ in range(count):
        await asyncio.sleep(0)


def request(
    container: str = "c1", *, ifname: str = "eth0", netns: str = "", network: str = "n1"
) -> PodRequest:
    asked = interface(container, ifname, network, netns)
    return PodRequest(spec=asked, pod_name="", namespace="", cni_version="1.0.0")


def in_group(asked: PodRequest, group: str) -> PodRequest:
    return asking(asked, group=GroupName(group))


def row_of(name: str) -> PortSpec:
    return PortSpec(name=name, ofport_request=port_names.number_of(name))
