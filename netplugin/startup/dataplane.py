"""Builds the data plane: bridges, the World, an OpenFlow agent for each bridge, the reconciler.

In come the clients (`netplugin.startup.clients`), the switches and the cluster's forwarding mode;
out comes a `Dataplane` that is wired, but has read no record and changes no flow. Next is
`netplugin.startup.resync`.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from core.ids import HostLabel
from core.logs import fields
from core.metrics import Metric, Reading, labelled, single
from netplugin.bridges.bridge_keeper import BridgeKeeper
from netplugin.bridges.bridges import USERSPACE, bridge_specs, choose_datapath, datapath_id
from netplugin.bridges.ended_connections import EndedConnections
from netplugin.bridges.megaflow_purge import MegaflowPurger
from netplugin.bridges.openflow_listeners import open_listener
from netplugin.bridges.reconciler import Reconciler
from netplugin.bridges.record_events import RecordEvents
from netplugin.bridges.uplink.nics import check_cards
from netplugin.bridges.uplink.port_reconciler import PortReconciler
from netplugin.bridges.uplink.uplinks import Uplinks, attached_cards
from netplugin.bridges.vxlan.tunnels import Tunnels
from netplugin.diagnostics.policy_log import PolicyLog
from netplugin.dns.nameserver import ClusterDns, NameServer
from netplugin.dns.rate_limit import RateLimit
from netplugin.dns.upstream import Upstream, servers_of_host
from netplugin.flow_records.export import FlowExporter
from netplugin.flow_records.recorder import DropCounter, FlowRecorder
from netplugin.flow_records.ring import Ring
from netplugin.flow_records.sinks import FileSink, IpfixSink, Sink, SocketSink
from netplugin.masters.progress import Progress, at_once
from netplugin.pod_metrics import samples
from netplugin.pod_metrics.pod_metrics import PodMetrics
from netplugin.settings import AgentSettings, ExportKind, ExportTarget
from netplugin.startup import metric_names as names
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Subsystem, Task, Tasks
from netplugin.world.bridges.vrfs import stored_vrfs
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.channel.switch import Switch
from ofnet.channel.workload import Workload
from ofnet.flow_sync import SyncLimits
from ofnet.logged_rules import LoggedPacket, Notice
from ofnet.world import Bridge, FwdMode, World
from state.held_networks import HeldNetworks
from state.watch import RecordFeed
from state.watch_scope import WatchScope

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridges:
    """What keeps both bridges and the state of their datapath; `datapath` is its type."""

    datapath: str
    keeper: BridgeKeeper
    purger: MegaflowPurger
    ended: EndedConnections

    def tasks(self) -> Tasks:
        """Return what keeps the bridges, from the first complete World on."""
        tasks: dict[str, Task] = {"bridges": self.keeper.run, "megaflows": self.purger.run}
        if self.datapath == USERSPACE:
            tasks["ended connections"] = self.ended.run
        return tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataplane(Subsystem):
    """The parts that turn records into flows."""

    feed: RecordFeed
    scope: WatchScope | None
    progress: Progress
    world: WorldBuilder
    names: NameServer
    policy_log: PolicyLog
    flow_recorder: FlowRecorder | None
    flow_exporter: FlowExporter | None
    pod_metrics: PodMetrics | None
    agents: dict[Bridge, BridgeAgent]
    records: RecordEvents
    reconciler: Reconciler
    ports: PortReconciler
    bridges: Bridges

    def flow_tasks(self) -> Tasks:
        """Return what has flows realised, from the first complete World on, by name."""
        tasks: dict[str, Task] = {**self.bridges.tasks(), "flows": self.reconciler.run}
        if self.flow_recorder is not None:
            tasks["flow records"] = self.flow_recorder.run
        if self.flow_exporter is not None:
            tasks["flow export"] = self.flow_exporter.run
        for bridge, agent in self.agents.items():
            tasks[f"bridge {bridge}"] = agent.run
            tasks[f"announcements {bridge}"] = agent.garp_sender.run
        return tasks

    def tasks(self) -> Tasks:
        """Return what keeps the ports of tunnels and uplinks, and the records that are held."""
        tasks: dict[str, Task] = {"tunnel ports": self.ports.run}
        if self.scope is not None:
            tasks["held networks"] = HeldNetworks(self.feed, self.scope).run
        return tasks

    def look_at_pods(self) -> None:
        """Count what pods have sent and received until now, where that is counted."""
        if self.pod_metrics is not None:
            self.pod_metrics.look()

    async def readings(self) -> Iterable[Reading]:
        """Return numbers of flows, packets and records. The switches are asked for their flows."""
        asked = await asyncio.gather(*(agent.installed() for agent in self.agents.values()))
        installed = {
            str(bridge): float(count)
            for bridge, count in zip(self.agents, asked, strict=True)
            if count is not None
        }
        return [
            *self._flows(),
            labelled(names.INSTALLED, installed),
            *self._packets(),
            *self._records(),
            *self._flow_records(),
            *self._pods(),
            *self._network(),
            labelled(names.DNS, self.names.totals()),
        ]

    def _flows(self) -> Iterator[Reading]:
        yield self._bridges(names.WANTED, lambda agent: len(agent.desired.held))
        yield self._bridges(names.REFUSED, lambda agent: len(agent.sync.refused))
        yield self._bridges(names.SYNCED, lambda agent: agent.sync.fully_synced)
        yield self._bridges(names.COMPARISONS, lambda agent: agent.sync.comparisons)
        yield self._bridges(names.DIFFERENCES, lambda agent: agent.sync.differences)
        yield self._bridges(names.CONNECTED, lambda agent: agent.connected)
        yield self._counter(names.FLOW_MODS, "flow_mods")
        yield self._counter(names.SESSIONS, "sessions")
        yield self._counter(names.SWITCH_ERRORS, "errors")

    def _packets(self) -> Iterator[Reading]:
        yield self._counter(names.PACKET_INS, "packet_in")
        counters = {"sent": "packet_out", "dropped": "packet_out_dropped"}
        yield Reading(
            names.PACKET_OUTS,
            {
                (str(bridge), outcome): float(agent.switch.counters.get(counter, 0))
                for bridge, agent in self.agents.items()
                for outcome, counter in counters.items()
            },
        )
        yield Reading(
            names.EVENTS,
            {
                (str(bridge), event): float(count)
                for bridge, agent in self.agents.items()
                for event, count in agent.stats.items()
            },
        )

    def _records(self) -> Iterator[Reading]:
        yield labelled(names.REALISED, self.progress.realised)
        yield single(names.REALISE_SECONDS, self.progress.realise_seconds.copy())
        yield single(names.BEHIND, self.progress.behind)
        yield single(names.WAITING, self.feed.waiting)
        yield single(names.UNDECODABLE, self.feed.undecodable)
        yield labelled(names.FAULTS, self.progress.fault_counts())

    def _flow_records(self) -> Iterator[Reading]:
        recorder = self.flow_recorder
        if recorder is not None:
            yield single(names.FLOWS_KEPT, len(recorder.ring))
            yield labelled(names.FLOWS_MADE, recorder.ring.made)
            yield labelled(names.FLOWS_LOST, recorder.lost)
        if self.flow_exporter is not None:
            yield labelled(names.FLOWS_EXPORTED, self.flow_exporter.sent)
            yield labelled(names.FLOWS_NOT_EXPORTED, self.flow_exporter.lost)

    def _pods(self) -> Iterator[Reading]:
        if self.pod_metrics is not None:
            self.pod_metrics.look()
            ledger = self.pod_metrics.ledger
            pods = samples.of_pods(ledger, self.pod_metrics.most), names.OF_PODS
            for found, metrics in (pods, (samples.of_groups(ledger), names.OF_GROUPS)):
                for metric, values in zip(metrics, found, strict=True):
                    yield Reading(metric, values)

    def _network(self) -> Iterator[Reading]:
        worlds = {str(bridge): agent.world for bridge, agent in self.agents.items()}
        yield Reading(names.ENDPOINTS, dict(_endpoints(worlds)))
        yield labelled(names.SERVICES, {at: len(world.services) for at, world in worlds.items()})
        yield Reading(names.SERVICE_PORTS, dict(_service_ports(worlds)))
        wanted = set(self.world.peers.tunnel_ends())
        ready = wanted & self.agents[Bridge.VXLAN].world.vteps.keys()
        yield labelled(names.TUNNELS, {"wanted": len(wanted), "ready": len(ready)})

    def _counter(self, metric: Metric, counter: str) -> Reading:
        return self._bridges(metric, lambda agent: agent.switch.counters.get(counter, 0))

    def _bridges(self, metric: Metric, value: Callable[[BridgeAgent], float]) -> Reading:
        agents = self.agents.items()
        return labelled(metric, {str(bridge): float(value(agent)) for bridge, agent in agents})


def _endpoints(worlds: Mapping[str, World]) -> Iterator[tuple[tuple[str, ...], float]]:
    for bridge, world in worlds.items():
        yield (bridge, "local"), len(world.local)
        yield (bridge, "remote"), len(world.remote)


def _service_ports(worlds: Mapping[str, World]) -> Iterator[tuple[tuple[str, ...], float]]:
    for bridge, world in worlds.items():
        served = [bool(port.providers) for one in world.services.values() for port in one.ports]
        yield (bridge, "served"), sum(served)
        yield (bridge, "unserved"), len(served) - sum(served)


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
        flow_records=settings.flow_records > 0,
        cluster_domain=settings.cluster_domain,
        dns_address=settings.dns_address,
        underlay=clients.underlay_routes.known,
    )
    name_server = _name_server(context, world)
    policy_log = PolicyLog(world.endpoints, partial(datetime.now, UTC))
    pod_metrics = _pod_metrics(settings, clients, world)
    recorder = _flow_recorder(context, clients, world, pod_metrics)
    agents = {
        bridge: BridgeAgent(
            switch,
            bridge,
            world.take(bridge)[0],
            limits=SyncLimits(audit_interval=settings.audit_interval),
            resolve=name_server.resolve,
            notice=_noticed(policy_log, recorder, bridge),
            dropped=recorder.note if recorder is not None else None,
        )
        for bridge, switch in switches.items()
    }
    if recorder is not None:
        recorder.attach(agents)
    feed = RecordFeed(clients.store, scope=scope)
    purger = MegaflowPurger(clients.vswitchd)
    settle = purger.request if datapath == USERSPACE else at_once
    progress = Progress(agents, feed.unreadable, settle)
    context.loops.report_to(progress.set_faults)
    tunnels = Tunnels(
        ovsdb=clients.ovsdb,
        world=world,
        vxlan_port=settings.vxlan_port,
        board=progress,
        retries=context.timing.tunnels,
    )
    records = RecordEvents(world, progress)
    ended = EndedConnections(clients.vswitchd, Bridge.VXLAN)
    reconciler = Reconciler(
        ovsdb=clients.ovsdb,
        world=world,
        agents=agents,
        records=records,
        progress=progress,
        ended=ended,
    )
    keeper = BridgeKeeper(
        ovsdb=clients.ovsdb,
        specs=specs,
        agents=agents,
        board=progress,
        reconciler=reconciler,
    )
    ports = PortReconciler(
        ovsdb=clients.ovsdb,
        records=records,
        keeper=keeper,
        uplinks=Uplinks(macs, clients.ovsdb, world),
        tunnels=tunnels,
        progress=progress,
    )
    return Dataplane(
        feed=feed,
        scope=scope,
        progress=progress,
        world=world,
        names=name_server,
        policy_log=policy_log,
        flow_recorder=recorder,
        flow_exporter=_flow_exporter(settings, recorder),
        pod_metrics=pod_metrics,
        agents=agents,
        records=records,
        reconciler=reconciler,
        ports=ports,
        bridges=Bridges(datapath=datapath, keeper=keeper, purger=purger, ended=ended),
    )


def _name_server(context: Context, world: WorldBuilder) -> NameServer:
    settings = context.settings
    own = None
    if settings.dns_address is not None:
        servers = settings.dns_upstream or servers_of_host()
        outside = [one for one in servers if one != settings.dns_address]
        own = ClusterDns(settings.dns_address, Upstream(outside, context.supervisor))
    return NameServer(world.names, RateLimit(settings.dns_rate, time.monotonic), own)


def _flow_exporter(settings: AgentSettings, recorder: FlowRecorder | None) -> FlowExporter | None:
    """Return what exports records of flows; None where that is off."""
    if recorder is None or not settings.flow_export:
        return None
    targets = settings.flow_export
    return FlowExporter(recorder.ring, {one.text: _sink(one, settings.host) for one in targets})


def _sink(target: ExportTarget, host: HostLabel) -> Sink:
    match target.kind:
        case ExportKind.FILE:
            return FileSink(Path(target.where), host)
        case ExportKind.UNIX:
            return SocketSink(Path(target.where), host)
        case ExportKind.IPFIX:
            return IpfixSink(target.where, target.port, host, lambda: datetime.now(UTC).timestamp())


def _noticed(policy_log: PolicyLog, recorder: FlowRecorder | None, bridge: Bridge) -> Notice:
    def note(packet: LoggedPacket) -> None:
        policy_log.note(packet)
        if packet.rule.audit and recorder is not None:
            recorder.note_audited(packet, bridge)

    return note


def _pod_metrics(
    settings: AgentSettings, clients: Clients, world: WorldBuilder
) -> PodMetrics | None:
    """Return what counts the traffic of pods; None where that is off."""
    most = settings.named_pods
    return None if most is None else PodMetrics(world, clients.tools.link_counters, most=most)


def _flow_recorder(
    context: Context, clients: Clients, world: WorldBuilder, drop_counter: DropCounter | None
) -> FlowRecorder | None:
    """Return what records flows; None where that is off."""
    kept = context.settings.flow_records
    if not kept:
        return None
    return FlowRecorder(
        clients.vswitchd,
        clients.ovsdb.ports,
        world.endpoints.row,
        world.pod_policies.policies,
        now=lambda: datetime.now(UTC).timestamp(),
        # positions rise over restarts: a watch of netmaster goes on by them
        ring=Ring(kept, start=time.time_ns() // 1000),
        drop_counter=drop_counter,
    )
