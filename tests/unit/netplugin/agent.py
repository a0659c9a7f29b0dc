"""An agent's inside, wired as `netplugin.startup` does it, on fake doors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType

from core.ids import GroupName, NetworkName, TenantName
from core.tasks import Supervisor, supervisor
from netplugin.bgp.host import HostBgp
from netplugin.bridges.host_access import HostAccess
from netplugin.bridges.host_ports import HostPorts, InterfaceContext
from netplugin.bridges.infra import Infra
from netplugin.bridges.port_reconciler import PortReconciler
from netplugin.bridges.reconciler import Reconciler
from netplugin.bridges.record_events import RecordEvents
from netplugin.bridges.tunnels import Tunnels
from netplugin.bridges.uplinks import Uplinks
from netplugin.cni.request import PodRequest
from netplugin.masters.progress import Progress
from netplugin.ovsdb import PortSpec
from netplugin.pods.add import HostFacts, PodAdd
from netplugin.pods.endpoint_registry import EndpointRegistry
from netplugin.pods.handler import Pods
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.mtu import PodMtus, Underlay
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.teardown import Teardown
from netplugin.world import port_names
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge, FwdMode
from state.records import NetworkRecord, Record
from state.watch import Changed
from tests.unit.bgp_router import FakeRouter
from tests.unit.netplugin.fakes import (
    FakeFirewall,
    FakeJournal,
    FakeLinks,
    FakeMaster,
    FakeOvsdb,
    FakeSwitch,
    Faults,
)
from tests.unit.netplugin.records import HOST, network

NOTHING_LEFT: tuple[object, ...] = ({}, {}, {}, {}, set())


@dataclass(slots=True, kw_only=True)
class Outside:
    """What outlives an agent: the host, its switch, netmaster."""

    faults: Faults
    journal: FakeJournal
    links: FakeLinks
    ovsdb: FakeOvsdb
    firewall: FakeFirewall
    master: FakeMaster
    switches: dict[Bridge, FakeSwitch]
    router: FakeRouter

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
            master=FakeMaster(faults),
            switches={bridge: FakeSwitch(bridge, faults) for bridge in Bridge},
            router=FakeRouter(),
        )


@dataclass(slots=True, kw_only=True)
class Agent:
    """One run of the agent."""

    outside: Outside
    world: WorldBuilder
    progress: Progress
    records: RecordEvents
    reconciler: Reconciler
    ports: PortReconciler
    removal: Teardown
    roster: EndpointRegistry
    pod_ports: PodPorts
    mtus: PodMtus
    pods: Pods
    host_access: HostAccess
    access: HostInterfaces
    infra: Infra
    bgp: HostBgp
    sup: Supervisor
    base: set[object]
    """The flows every bridge has."""

    def learn(self, key: str, record: Record) -> None:
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


def wire(
    outside: Outside,
    sup: Supervisor,
    networks: tuple[NetworkRecord, ...],
    *,
    run: bool = True,
    macs: Mapping[str, str] = MappingProxyType({}),
    services: IPv4Network | None = None,
) -> Agent:
    """Return an agent that knows the store and has placed nothing yet."""
    world = WorldBuilder(HOST, FwdMode.ROUTING)
    agents = {b: BridgeAgent(s, b, world.take(b)[0]) for b, s in outside.switches.items()}
    progress = Progress(agents, {})
    records = RecordEvents(world, progress)
    reconciler = Reconciler(
        ovsdb=outside.ovsdb, world=world, agents=agents, records=records, progress=progress
    )

    async def restore_bridges() -> None:
        for bridge in Bridge:
            ids = dict(outside.ovsdb.bridge_external_ids(bridge))
            outside.ovsdb.show(bridges={**{b: {} for b in outside.ovsdb.bridges()}, bridge: ids})
        reconciler.on_bridges_recreated()

    ports = PortReconciler(
        ovsdb=outside.ovsdb,
        records=records,
        restore_bridges=restore_bridges,
        uplinks=Uplinks(macs, outside.ovsdb, world),
        tunnels=Tunnels(
            ovsdb=outside.ovsdb,
            world=world,
            vxlan_port=4789,
            report_faults=partial(progress.show, "tunnels"),
        ),
        progress=progress,
    )
    for record in networks:
        world.put(record)
    removal = Teardown(
        master=outside.master,
        journal=outside.journal,
        links=outside.links,
        ovsdb=outside.ovsdb,
        supervisor=sup,
    )
    roster = EndpointRegistry()
    mtus = pod_mtus(outside, roster, progress)
    pod_ports = PodPorts(
        roster=roster,
        links=outside.links,
        ovsdb=outside.ovsdb,
        world=world,
        reconciler=reconciler,
        removal=removal,
    )
    access = HostInterfaces(
        roster=roster,
        links=outside.links,
        ovsdb=outside.ovsdb,
        pod_ports=pod_ports,
        world=world,
        reconciler=reconciler,
        tx_off=True,
        interval=60,
    )
    addition = PodAdd(
        facts=HostFacts(label=HOST, tx_off=True, services=services),
        mtus=mtus,
        master=outside.master,
        journal=outside.journal,
        links=outside.links,
        roster=roster,
        pod_ports=pod_ports,
        access=access,
        world=world,
        reconciler=reconciler,
    )
    pods = Pods(
        host=HOST,
        addition=addition,
        master=outside.master,
        journal=outside.journal,
        roster=roster,
        pod_ports=pod_ports,
        world=world,
        reconciler=reconciler,
        removal=removal,
    )
    context = InterfaceContext(
        ovsdb=outside.ovsdb,
        host_ports=HostPorts(outside.ovsdb, outside.links),
        world=world,
        records=records,
        interval=60,
    )
    host_access = HostAccess(
        context, iptables=outside.firewall, address=IPv4Address("192.168.2.10")
    )
    infra = Infra(context, host=HOST, master=outside.master, services=services)
    bgp = HostBgp(
        ovsdb=outside.ovsdb,
        host_ports=HostPorts(outside.ovsdb, outside.links),
        world=world,
        reconciler=reconciler,
        agent=agents[Bridge.VLAN],
        complain=partial(progress.show, "BGP"),
        interval=60,
        connect=outside.router.connect,
    )
    if run:
        for bridge, agent in agents.items():
            sup.supervise(f"bridge {bridge}", agent.run())
    return Agent(
        outside=outside,
        world=world,
        progress=progress,
        records=records,
        reconciler=reconciler,
        ports=ports,
        removal=removal,
        roster=roster,
        pod_ports=pod_ports,
        mtus=mtus,
        pods=pods,
        host_access=host_access,
        access=access,
        infra=infra,
        bgp=bgp,
        sup=sup,
        base=set(),
    )


def pod_mtus(
    outside: Outside,
    roster: EndpointRegistry,
    progress: Progress,
    *,
    uplinks: tuple[str, ...] = (),
    wanted: int | None = None,
) -> PodMtus:
    """Return the MTUs as they are before the links have been read: those of an Ethernet."""
    mtus = PodMtus(
        links=outside.links,
        ovsdb=outside.ovsdb,
        roster=roster,
        vtep_ip=IPv4Address("192.0.2.1"),
        uplinks=uplinks,
        wanted=wanted,
        complain=partial(progress.show, "MTU"),
    )
    mtus.underlay = Underlay(1500)
    return mtus


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
        agent = wire(outside, sup, networks, macs=macs, services=services)
        for fact in known:
            agent.world.put(fact)
        agent.pods.recover(await outside.journal.load())
        for record in outside.master.endpoints.values():
            agent.world.put(record)
        agent.pod_ports.place()
        agent.bgp.place()
        agent.world.set_complete()
        sup.supervise("flows", agent.reconciler.run())
        await agent.reconciler.flush()
        if not agent.pods.keys():
            agent.base = {key for s in outside.switches.values() for key in s.table}
        yield agent
        assert sup.spawn_failures == 0
        assert not sup.stopping


async def left_nothing(agent: Agent) -> None:
    """See that nothing is left anywhere, now or soon."""
    await eventually(lambda: not agent.outside.faults.pending)
    await eventually(lambda: agent.traces() == NOTHING_LEFT)
    await eventually(lambda: not agent.pod_ports.in_use())
    assert agent.pods.keys() == frozenset()


async def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.002)


async def turns(count: int = 20) -> None:
    """Let the event loop run: what can be done without waiting for anything is done then."""
    for _ in range(count):
        await asyncio.sleep(0)


def request(
    container: str = "c1", *, ifname: str = "eth0", netns: str = "", network: str = "n1"
) -> PodRequest:
    return PodRequest(
        container_id=container,
        netns=netns or f"/run/netns/{container}",
        ifname=ifname,
        pod_name="",
        namespace="",
        tenant=TenantName("default"),
        network=NetworkName(network),
        group=None,
        cni_version="1.0.0",
    )


def in_group(asked: PodRequest, group: str) -> PodRequest:
    return replace(asked, group=GroupName(group))


def row_of(name: str) -> PortSpec:
    return PortSpec(name=name, ofport_request=port_names.number_of(name))
