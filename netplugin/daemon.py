"""Wires the agent together and runs it (design D10: start-up is the recovery path).

Order (spec/netplugin-agent.md §2): the store and OVSDB, the cluster's settings, bridges and
switch, the store's records and the journal. The World is complete when all of these have been
read, and only then may anything be deleted. Registration, CNI and inspection come last: an agent
that answers is one that works.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import Final

from contivmodel.client import MasterClient
from core import keys
from core.errors import ContivError, SwitchRefused, SwitchUnavailable, UsageError
from core.ids import HostLabel
from core.logs import fields
from core.tasks import Supervisor, supervisor
from netplugin import echo, inspect, nodeports, ports, registration
from netplugin.accessports import AccessPorts
from netplugin.bgp import Bgp
from netplugin.bridges import USERSPACE, choose_datapath, datapath_id, ensure_bridges
from netplugin.cards import check_cards
from netplugin.cni import server as cni
from netplugin.control import ControlChannel
from netplugin.firewall import Firewall
from netplugin.hostaccess import CHAINS, HostAccess, warn_unless_forwarding
from netplugin.hostports import HostPorts
from netplugin.infra import Infra
from netplugin.inspect import Inspector
from netplugin.journal import Journal
from netplugin.kube import config
from netplugin.kube.api import KubeApi
from netplugin.kube.config import KubeConfig
from netplugin.kube.feed import KubeFeed
from netplugin.leaks import Leaks
from netplugin.masters import Masters
from netplugin.mtu import VXLAN_OVERHEAD, PodMtus
from netplugin.nameserver import NameServer
from netplugin.netns import HostLinks
from netplugin.nodeports import NodePorts
from netplugin.ovsdb import Ovsdb
from netplugin.paths import Paths
from netplugin.podports import PodPorts
from netplugin.pods import HostFacts, Pods
from netplugin.progress import Progress
from netplugin.reconcile import Reconciler
from netplugin.removal import Removal
from netplugin.roster import Roster
from netplugin.settings import Settings
from netplugin.uplinks import Uplinks, attached_cards
from netplugin.vrfs import stored_vrfs
from netplugin.world import WorldBuilder
from objdb.api import Backend
from objdb.arrival import arrival
from objdb.connect import connect
from ofnet.agent import BridgeAgent
from ofnet.inspection import Identity
from ofnet.switch import Switch
from ofnet.world import Bridge, FwdMode
from state import schema
from state.records import GlobalRecord
from state.watch import RecordFeed

log = logging.getLogger(__name__)

OVSDB_WAIT: Final = 30.0
SAY_AGAIN: Final = 10.0
KUBERNETES_WAIT: Final = 5.0
SWITCH_WAIT: Final = 10.0
RECORDS_AT_ONCE: Final = 500


async def run(settings: Settings, version: str) -> None:
    """Run the agent until SIGTERM or SIGINT. Flows and ports stay when it ends."""
    async with supervisor(signals=True) as sup:
        sup.supervise("agent", _agent(settings, version, sup))
        await sup.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """What the agent runs with: its settings, the owner of its tasks, and what its end undoes."""

    settings: Settings
    version: str
    sup: Supervisor
    stack: AsyncExitStack
    services: IPv4Network | None = None
    """The subnet of Kubernetes' services."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doors:
    """The agent's ways out: store, OVSDB, kernel, and what takes the last two."""

    store: Backend
    ovsdb: Ovsdb
    links: HostLinks
    host_ports: HostPorts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plane:
    """What forwards: the records, the World of them, the bridges, and who keeps them in step."""

    feed: RecordFeed
    progress: Progress
    world: WorldBuilder
    names: NameServer
    agents: dict[Bridge, BridgeAgent]
    reconciler: Reconciler
    host_access: HostAccess
    bgp: Bgp
    datapath: str
    macs: dict[str, str]
    """The uplinks' MAC addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoints:
    """Who looks after this host's endpoints: calls, ports, what is to go, what nobody deletes."""

    pods: Pods
    mtus: PodMtus
    ports: PodPorts
    removal: Removal
    leaks: Leaks
    infra: Infra
    access: AccessPorts


async def _agent(settings: Settings, version: str, sup: Supervisor) -> None:
    async with AsyncExitStack() as stack:
        kubernetes = config.load(settings.k8s_config) if settings.k8s_config else KubeConfig()
        followed = KubeApi(kubernetes) if kubernetes.server else None
        life = _Life(
            settings=settings,
            version=version,
            sup=sup,
            stack=stack,
            services=kubernetes.services,
        )
        doors = await _open_doors(life)
        macs = await _uplink_macs(doors, settings)
        cluster = await _cluster_settings(doors.store, settings)
        plane = await _open_plane(life, doors, FwdMode(cluster.fwd_mode), macs)
        endpoints = await _open_endpoints(life, doors, plane)
        record = registration.host_record(settings, plane.macs.values(), version)
        await registration.put_host_record(doors.store, record)
        node_ports = await _follow_kubernetes(life, plane, followed) if followed else None
        await _settle(life, doors, plane, endpoints)
        if node_ports is not None:
            sup.supervise("node ports", node_ports.run())
        sup.supervise("leaks", endpoints.leaks.run())
        is_known = partial(plane.world.hosts.knows, settings.host)
        kept = registration.keep_host_record(doors.store, record, is_known)
        sup.supervise("host record", kept)
        await _serve(life, doors, plane, endpoints)
        ready = fields(host=settings.host, count=len(endpoints.pods.keys()))
        log.info("agent ready", extra=ready)
        await asyncio.Event().wait()


async def _follow_kubernetes(life: _Life, plane: _Plane, api: KubeApi) -> NodePorts:
    """Follow the services of Kubernetes, and have them read before what is missing is gone.

    An API server that is away is not waited for long: pods are more than services. Node ports can
    be kept once this host's pods are known.
    """
    feed = KubeFeed(api, plane.world)
    life.sup.supervise("services of kubernetes", feed.run())
    if not await feed.listed(KUBERNETES_WAIT):
        log.warning("kubernetes has not told of its services: there are none until it does")
    return NodePorts(
        feed=feed,
        firewall=Firewall(nodeports.CHAINS),
        world=plane.world,
        reconciler=plane.reconciler,
        interval=life.settings.audit_interval,
    )


async def _open_doors(life: _Life) -> _Doors:
    settings = life.settings
    log.info("agent starts", extra=fields(host=settings.host, address=settings.ctrl_ip))
    store = connect(settings.store)
    life.stack.push_async_callback(store.close)
    stamp = await arrival(settings.store, store, keys.SCHEMA)
    if stamp is not None:
        schema.check_version(stamp.value)
    links = life.stack.enter_context(closing(HostLinks()))
    log.info("waiting for Open vSwitch", extra=fields(path=settings.ovsdb))
    ovsdb = await Ovsdb.connect(settings.ovsdb, wait=OVSDB_WAIT)
    await life.stack.enter_async_context(ovsdb)
    following = life.sup.supervise("ovsdb replica", ovsdb.follow())
    life.stack.callback(following.cancel)  # its end would hide why the agent ends
    host_ports = HostPorts(ovsdb, links)
    return _Doors(store=store, ovsdb=ovsdb, links=links, host_ports=host_ports)


async def _cluster_settings(store: Backend, settings: Settings) -> GlobalRecord:
    """Wait until netmaster has written the cluster's settings; they must agree with ours.

    Raises UsageError when they do not (spec/netplugin-agent.md §2.3).
    """
    log.info("waiting for netmaster's settings in the store", extra=fields(path=settings.store))
    feed = RecordFeed(store, (keys.MASTER_CONFIG,))
    async with asyncio.TaskGroup() as reading:
        following = reading.create_task(feed.run())
        while True:
            await _some(feed)
            found = feed.records.get(keys.GLOBAL_CONFIG)
            if isinstance(found, GlobalRecord) and found.fwd_mode and found.pvt_subnet:
                break
        following.cancel()
    if settings.fwd_mode not in {None, found.fwd_mode}:
        raise UsageError(
            f"forwarding mode {settings.fwd_mode} of this agent differs from the cluster's "
            f"{found.fwd_mode}: start it with --fwdmode {found.fwd_mode}"
        )
    return found


async def _some(feed: RecordFeed) -> None:
    """Wait for records, and say again and again that we wait."""
    began = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(SAY_AGAIN):
                await feed.take()
                return
        except TimeoutError:
            waited = round(time.monotonic() - began)
            log.warning("no netmaster has written settings yet", extra=fields(seconds=waited))


async def _uplink_macs(doors: _Doors, settings: Settings) -> dict[str, str]:
    """Return the MAC address of each card of the uplink.

    Raises UsageError for one that this host lives on.
    """
    cards = await doors.links.cards(settings.uplinks)
    check_cards(cards, attached_cards(doors.ovsdb.ports(Bridge.VLAN).values()))
    return {card.name: card.mac for card in cards}


async def _open_plane(
    life: _Life, doors: _Doors, fwd_mode: FwdMode, macs: dict[str, str]
) -> _Plane:
    switches = await _open_switches(life)
    datapath = await choose_datapath(doors.links)
    controllers = {b: switch.port for b, switch in switches.items()}
    make_bridges = partial(ensure_bridges, doors.ovsdb, life.settings.host, datapath, controllers)
    await make_bridges()
    kept = stored_vrfs(doors.ovsdb.bridge_external_ids(Bridge.VXLAN))
    world = WorldBuilder(life.settings.host, fwd_mode, kept, guard=life.settings.source_guard)
    names = NameServer(world.names)
    agents = {
        b: BridgeAgent(
            switch,
            b,
            world.take(b)[0],
            audit_interval=life.settings.audit_interval,
            resolve=names.resolve,
        )
        for b, switch in switches.items()
    }
    feed = RecordFeed(doors.store)
    progress = Progress(agents, feed.unreadable)
    reconciler = Reconciler(
        host=life.settings.host,
        vxlan_port=life.settings.vxlan_port,
        ovsdb=doors.ovsdb,
        world=world,
        agents=agents,
        make_bridges=make_bridges,
        uplinks=Uplinks(macs, doors.ovsdb, world),
        progress=progress,
    )
    return _Plane(
        feed=feed,
        progress=progress,
        world=world,
        names=names,
        agents=agents,
        reconciler=reconciler,
        host_access=HostAccess(
            ovsdb=doors.ovsdb,
            host_ports=doors.host_ports,
            firewall=Firewall(CHAINS),
            world=world,
            reconciler=reconciler,
            address=life.settings.vtep_ip,
            interval=life.settings.audit_interval,
        ),
        bgp=Bgp(
            ovsdb=doors.ovsdb,
            host_ports=HostPorts(doors.ovsdb, doors.links),
            world=world,
            reconciler=reconciler,
            agent=agents[Bridge.VLAN],
            complain=partial(progress.show, "BGP"),
            interval=life.settings.audit_interval,
        ),
        datapath=datapath,
        macs=macs,
    )


async def _open_switches(life: _Life) -> dict[Bridge, Switch]:
    wanted = {
        Bridge.VXLAN: life.settings.vxlan_openflow_port,
        Bridge.VLAN: life.settings.vlan_openflow_port,
    }
    switches = {}
    for bridge, port in wanted.items():
        switch = Switch(bridge, port=port, datapath_id=datapath_id(bridge, life.settings.host))
        await switch.start()
        life.stack.push_async_callback(switch.close)
        switches[bridge] = switch
    return switches


async def _open_endpoints(life: _Life, doors: _Doors, plane: _Plane) -> _Endpoints:
    client = MasterClient()
    life.stack.push_async_callback(client.close)
    masters = Masters(doors.store, client)
    life.sup.supervise("masters", masters.follow())
    journal = Journal(life.settings.journal)
    life.stack.callback(journal.close)
    removal = Removal(
        master=masters, journal=journal, links=doors.links, ovsdb=doors.ovsdb, supervisor=life.sup
    )
    facts = HostFacts(
        label=life.settings.host,
        tx_off=plane.datapath == USERSPACE,
        services=life.services,
    )
    roster = Roster()
    mtus = PodMtus(
        links=doors.links,
        ovsdb=doors.ovsdb,
        roster=roster,
        vtep_ip=life.settings.vtep_ip,
        uplinks=life.settings.uplinks,
        wanted=life.settings.mtu,
        complain=partial(plane.progress.show, "MTU"),
    )
    await mtus.read()
    pod_ports = PodPorts(
        roster=roster,
        links=doors.links,
        ovsdb=doors.ovsdb,
        world=plane.world,
        reconciler=plane.reconciler,
        removal=removal,
    )
    access = AccessPorts(
        roster=roster,
        links=doors.links,
        ovsdb=doors.ovsdb,
        pod_ports=pod_ports,
        world=plane.world,
        reconciler=plane.reconciler,
        tx_off=facts.tx_off,
        interval=life.settings.audit_interval,
    )
    pods = Pods(
        facts=facts,
        mtus=mtus,
        master=masters,
        journal=journal,
        links=doors.links,
        roster=roster,
        pod_ports=pod_ports,
        access=access,
        world=plane.world,
        reconciler=plane.reconciler,
        removal=removal,
    )
    pods.recover(await journal.load())
    leaks = Leaks(
        pods=pods,
        roster=roster,
        pod_ports=pod_ports,
        journal=journal,
        links=doors.links,
        ovsdb=doors.ovsdb,
        world=plane.world,
        grace=life.settings.leak_grace,
    )
    infra = Infra(
        host=life.settings.host,
        master=masters,
        ovsdb=doors.ovsdb,
        host_ports=doors.host_ports,
        world=plane.world,
        reconciler=plane.reconciler,
        services=life.services,
        interval=life.settings.audit_interval,
    )
    return _Endpoints(
        pods=pods,
        mtus=mtus,
        ports=pod_ports,
        removal=removal,
        leaks=leaks,
        infra=infra,
        access=access,
    )


async def _settle(life: _Life, doors: _Doors, plane: _Plane, endpoints: _Endpoints) -> None:
    """Read the store once, find this host's ports again, then let absence mean gone."""
    read = asyncio.Event()
    life.sup.supervise("records", plane.feed.run())
    life.sup.supervise("facts", _follow_records(plane.feed, plane.reconciler, read))
    await read.wait()
    for key, reason in endpoints.ports.place().items():
        log.warning("endpoint is not connected", extra=fields(endpoint=key, error=reason))
    endpoints.infra.place()
    plane.bgp.place()
    try:
        await plane.reconciler.converge()
    except ContivError as exc:  # `run_ports` goes on with it; what is there works meanwhile
        log.warning("tunnel ports not in step", extra=fields(error=exc))
    try:
        await plane.host_access.converge()
    except ContivError as exc:  # `run` goes on with it
        log.warning("host access not in step", extra=fields(error=exc))
    warn_unless_forwarding()
    endpoints.access.place()
    plane.world.set_complete()
    life.sup.supervise("flows", plane.reconciler.run_flows())
    for bridge, agent in plane.agents.items():
        life.sup.supervise(f"bridge {bridge}", agent.run())
        life.sup.supervise(f"announcements {bridge}", agent.announcer.run())
    await _forwarding(plane)
    life.sup.supervise("tunnel ports", plane.reconciler.run_ports())
    life.sup.supervise("host access", plane.host_access.run())
    life.sup.supervise("infra networks", endpoints.infra.run())
    life.sup.supervise("BGP", plane.bgp.run())
    life.sup.supervise("endpoint ports", endpoints.ports.run())
    life.sup.supervise("MTU", endpoints.mtus.run())
    if life.settings.probe_interval:
        life.sup.supervise("paths", _paths(life.settings, plane, endpoints.mtus).run())
    life.sup.supervise("interfaces to the host", endpoints.access.run())
    life.sup.supervise("ovsdb", plane.reconciler.run_ovsdb())
    await _sweep(doors, endpoints)


def _paths(settings: Settings, plane: _Plane, mtus: PodMtus) -> Paths:
    def complain(faults: Mapping[HostLabel, str]) -> None:
        plane.progress.show("paths", (f"path to {host}: {why}" for host, why in faults.items()))

    return Paths(
        peers=plane.world.hosts.tunnel_ends,
        size=lambda: mtus.of(Bridge.VXLAN) + VXLAN_OVERHEAD,
        probe=partial(echo.passes, source=settings.vtep_ip),
        interval=settings.probe_interval,
        complain=complain,
    )


async def _forwarding(plane: _Plane) -> None:
    """Wait until the World as it is now is on the switch, which may come and go meanwhile."""
    while True:
        for bridge, agent in plane.agents.items():
            await _switch_ready(bridge, agent)
        try:
            await plane.reconciler.flush()
        except SwitchUnavailable as exc:
            log.warning("flows not acknowledged", extra=fields(error=exc))
            continue
        except SwitchRefused as exc:  # `ofnet.agent` tries again at every audit
            log.warning("flows refused", extra=fields(error=exc))
        return


async def _sweep(doors: _Doors, endpoints: _Endpoints) -> None:
    """Remove what an agent that died in the middle of an ADD has left: no journal knows it."""
    in_use = endpoints.ports.in_use()
    used = {name(number) for number in in_use for name in (ports.switch_name, ports.access_name)}
    links = {name for name in await doors.links.links() if ports.pod_number(name) is not None}
    for bridge in Bridge:
        rows = {n for n in doors.ovsdb.ports(bridge) if ports.pod_number(n) is not None}
        endpoints.removal.sweep(bridge, rows - used)
        links -= rows
    endpoints.removal.sweep(Bridge.VXLAN, links - used)


async def _switch_ready(bridge: Bridge, agent: BridgeAgent) -> None:
    """Wait until a bridge has its flows; say so if that takes long, and go on waiting."""
    while True:
        try:
            async with asyncio.timeout(SWITCH_WAIT):
                await agent.wait_settled()
        except TimeoutError:
            log.warning("no switch yet: is ovs-vswitchd running?", extra=fields(bridge=bridge))
        else:
            return


async def _follow_records(feed: RecordFeed, reconciler: Reconciler, read: asyncio.Event) -> None:
    while True:
        for event in await feed.take(RECORDS_AT_ONCE):
            reconciler.apply(event)
        if feed.complete:
            read.set()


async def _serve(life: _Life, doors: _Doors, plane: _Plane, endpoints: _Endpoints) -> None:
    """Let others reach this agent: masters, runtimes, and who wants to look inside."""
    settings = life.settings
    control = ControlChannel(doors.store, settings.host, str(settings.ctrl_ip), plane.progress)

    def identity(bridge: Bridge) -> Identity:
        masters = {node.host: node.port for node in control.masters.values()}
        return Identity(local_ip=str(settings.vtep_ip), port=control.port(bridge), masters=masters)

    inspector = Inspector(
        agents=plane.agents,
        identity=identity,
        names=plane.names,
        pods=endpoints.pods,
        bgp=plane.bgp,
        mended=endpoints.leaks.tally,
    )
    rpc = {Bridge.VXLAN: settings.vxlan_rpc_port, Bridge.VLAN: settings.vlan_rpc_port}
    await control.start(rpc, inspector.report, life.stack)
    life.sup.supervise("control channel", control.run())
    services = registration.instances(
        settings, [control.port(bridge) for bridge in Bridge], life.version
    )
    registration.register(doors.store, services, life.sup)
    await life.stack.enter_async_context(cni.serve(settings.cni_socket, endpoints.pods))
    rest = await life.stack.enter_async_context(
        inspect.serve(settings.rest, inspector.application())
    )
    found_at = registration.rest_instance(settings, rest, life.version)
    registration.register(doors.store, [found_at], life.sup)
