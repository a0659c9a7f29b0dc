"""Builds the data plane: bridges, the World, an OpenFlow agent for each bridge, the reconciler.

In come the clients (`netplugin.startup.clients`), the switches and the cluster's forwarding mode;
out comes a `Dataplane` that is wired, but has read no record and changes no flow. Next is
`netplugin.startup.resync`.
"""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from core.logs import fields
from netplugin.bridges.bridge_keeper import BridgeKeeper
from netplugin.bridges.bridges import USERSPACE, bridge_specs, choose_datapath, datapath_id
from netplugin.bridges.ended_connections import EndedConnections
from netplugin.bridges.megaflow_purge import MegaflowPurger
from netplugin.bridges.nics import check_cards
from netplugin.bridges.openflow_listeners import open_listener
from netplugin.bridges.port_reconciler import PortReconciler
from netplugin.bridges.reconciler import Reconciler
from netplugin.bridges.record_events import RecordEvents
from netplugin.bridges.stale_datagrams import StaleDatagrams
from netplugin.bridges.tunnels import Tunnels
from netplugin.bridges.uplinks import Uplinks, attached_cards
from netplugin.diagnostics.policy_log import PolicyLog
from netplugin.dns.nameserver import ClusterDns, NameServer
from netplugin.dns.rate_limit import RateLimit
from netplugin.dns.upstream import Upstream, servers_of_host
from netplugin.masters.progress import Progress, at_once
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Task, Tasks
from netplugin.world.builder import WorldBuilder
from netplugin.world.vrfs import stored_vrfs
from ofnet.agent import BridgeAgent
from ofnet.channel.switch import Switch
from ofnet.channel.workload import Workload
from ofnet.world import Bridge, FwdMode
from state.watch import RecordFeed
from state.watch_scope import WatchScope

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataplane:
    """The parts that turn records into flows; `datapath` is the datapath type of the bridges."""

    feed: RecordFeed
    scope: WatchScope | None
    progress: Progress
    world: WorldBuilder
    names: NameServer
    policy_log: PolicyLog
    agents: dict[Bridge, BridgeAgent]
    records: RecordEvents
    reconciler: Reconciler
    ports: PortReconciler
    keeper: BridgeKeeper
    purger: MegaflowPurger
    ended: EndedConnections
    datagrams: StaleDatagrams
    datapath: str

    def flow_tasks(self) -> Tasks:
        """Return what has flows realised, from the first complete World on, by name."""
        tasks: dict[str, Task] = {
            "bridges": self.keeper.run,
            "megaflows": self.purger.run,
            "flows": self.reconciler.run,
        }
        if self.datapath == USERSPACE:
            tasks["ended connections"] = self.ended.run
        for bridge, agent in self.agents.items():
            tasks[f"bridge {bridge}"] = agent.run
            tasks[f"announcements {bridge}"] = agent.garp_sender.run
        return tasks

    def tasks(self) -> Tasks:
        """Return what else runs for the life of the agent, by name."""
        return {"tunnel ports": self.ports.run}


async def uplink_macs(clients: Clients, names: tuple[str, ...]) -> dict[str, str]:
    """Return the MAC address of each uplink NIC by name.

    Raises UsageError for a NIC that carries the host's own traffic.
    """
    nics = await clients.links.cards(names)
    check_cards(nics, attached_cards(clients.ovsdb.ports(Bridge.VLAN).values()))
    return {nic.name: nic.mac for nic in nics}


async def start_switches(context: Context) -> dict[Bridge, Switch]:
    """Listen for the OpenFlow connection of each bridge until the agent ends. Raises HostError."""
    settings = context.settings
    ports = {
        Bridge.VXLAN: settings.vxlan_openflow_port,
        Bridge.VLAN: settings.vlan_openflow_port,
    }
    switches, workload = {}, Workload()
    for bridge, port in ports.items():
        # Only an agent that holds OVSDB's lock comes here: what is at the socket's path is left of
        # an agent that ended.
        listener = open_listener(settings.ovsdb, bridge, port)
        context.stack.callback(listener.close)
        switch = Switch(
            bridge,
            target=listener.target,
            datapath_id=datapath_id(bridge, settings.host),
            users=listener.users,
            workload=workload,
        )
        await switch.start(listener.socket)
        context.stack.push_async_callback(switch.close)
        log.info("OpenFlow listener started", extra=fields(bridge=bridge, path=listener.target))
        switches[bridge] = switch
    return switches


async def build_dataplane(
    context: Context,
    clients: Clients,
    switches: Mapping[Bridge, Switch],
    fwd_mode: FwdMode,
    macs: Mapping[str, str],
    *,
    scope: WatchScope | None,
) -> Dataplane:
    """Ensure both bridges and build the parts that forward.

    `macs` are the uplinks' by name; without a `scope` all endpoints of the cluster are held.
    """
    settings = context.settings
    datapath = await choose_datapath(clients.links)
    controllers = {bridge: switch.target for bridge, switch in switches.items()}
    owner = f"host {settings.host}, process {os.getpid()}"
    specs = bridge_specs(settings.host, datapath, controllers, owner)
    # ovs-vswitchd that found no agent waits up to a second before it connects again. A controller
    # it has not tried yet is dialled at once: so the old target is replaced before the new one is
    # set, also where both are the same.
    await clients.ovsdb.hang_up(*Bridge)
    for spec in specs:
        await clients.ovsdb.ensure_bridge(spec)
    # Flows of the agent before this one carry its VRF ids: the new World starts with the same.
    kept = stored_vrfs(clients.ovsdb.bridge_external_ids(Bridge.VXLAN))
    world = WorldBuilder(
        settings.host,
        fwd_mode,
        kept,
        guard=settings.source_guard,
        cluster_domain=settings.cluster_domain,
        dns_address=settings.dns_address,
        underlay=clients.underlay_routes.known,
    )
    names = _name_server(context, world)
    policy_log = PolicyLog(world.endpoints, partial(datetime.now, UTC))
    agents = _build_agents(switches, world, names, policy_log, settings.audit_interval)
    feed = RecordFeed(clients.store, scope=scope)
    purger = MegaflowPurger(clients.vswitchd)
    settle = purger.request if datapath == USERSPACE else at_once
    progress = Progress(agents, feed.unreadable, settle)
    context.loops.report_to(progress.set_faults)
    tunnels = Tunnels(
        ovsdb=clients.ovsdb,
        world=world,
        vxlan_port=settings.vxlan_port,
        report_faults=partial(progress.set_faults, "tunnels"),
    )
    records = RecordEvents(world, progress)
    ended = EndedConnections(clients.vswitchd, Bridge.VXLAN)
    reconciler = Reconciler(
        ovsdb=clients.ovsdb,
        world=world,
        agents=agents,
        records=records,
        progress=progress,
        zones_written=ended.written,
    )
    keeper = BridgeKeeper(
        ovsdb=clients.ovsdb,
        specs=specs,
        connected=lambda bridge: agents[Bridge(bridge)].connected,
        report_faults=partial(progress.set_faults, "bridges"),
        on_restored=reconciler.on_bridges_recreated,
    )
    ports = PortReconciler(
        ovsdb=clients.ovsdb,
        records=records,
        keep_bridges=keeper.converge,
        uplinks=Uplinks(macs, clients.ovsdb, world),
        tunnels=tunnels,
        progress=progress,
    )
    return Dataplane(
        feed=feed,
        scope=scope,
        progress=progress,
        world=world,
        names=names,
        policy_log=policy_log,
        agents=agents,
        records=records,
        reconciler=reconciler,
        ports=ports,
        keeper=keeper,
        purger=purger,
        ended=ended,
        datagrams=StaleDatagrams(clients.sweep_datagrams),
        datapath=datapath,
    )


def _name_server(context: Context, world: WorldBuilder) -> NameServer:
    settings = context.settings
    own = None
    if settings.dns_address is not None:
        servers = settings.dns_upstream or servers_of_host()
        outside = [one for one in servers if one != settings.dns_address]
        own = ClusterDns(settings.dns_address, Upstream(outside, context.supervisor))
    return NameServer(world.names, RateLimit(settings.dns_rate, time.monotonic), own)


def _build_agents(
    switches: Mapping[Bridge, Switch],
    world: WorldBuilder,
    names: NameServer,
    policy_log: PolicyLog,
    audit_interval: float,
) -> dict[Bridge, BridgeAgent]:
    return {
        bridge: BridgeAgent(
            switch,
            bridge,
            world.take(bridge)[0],
            audit_interval=audit_interval,
            resolve=names.resolve,
            notice=policy_log.note,
        )
        for bridge, switch in switches.items()
    }
