"""Reads the metrics of an agent on each scrape: the `Source` of its page `/metrics`.

In come the parts that `netplugin.startup` built; out go readings of
`netplugin.startup.metric_names`. Nearly all are in this process already. The number of installed
flows is asked of the switches: what an agent believes about them is no proof. What the host itself
knows is read by `netplugin.startup.host_numbers`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.metrics import Metric, Reading, labelled, single
from core.retry import Loops
from core.tasks import Supervisor
from daemons.request_stats import RequestStats
from daemons.tls import TlsContexts
from netplugin.kube.feed import KubeFeed
from netplugin.masters.leader import LeaderClient
from netplugin.startup import metric_names as names
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.host_services import HostServices
from netplugin.startup.pod_services import PodServices
from objdb.registration import Registration
from objdb.shared_lease import SharedLease
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge, World


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetrics:
    """A `core.metrics.Source`: the parts of one agent. `kubernetes` is None without."""

    version: str
    requests: RequestStats
    calls: RequestStats
    dataplane: Dataplane
    host_services: HostServices
    pod_services: PodServices
    lease: SharedLease
    registrations: list[Registration]
    leader: LeaderClient
    supervisor: Supervisor
    loops: Loops
    kubernetes: KubeFeed | None = None
    tls: TlsContexts | None = None

    async def read(self) -> Iterable[Reading]:
        """Return the metrics of this moment."""
        agents = self.dataplane.agents
        asked = await asyncio.gather(*(agent.installed() for agent in agents.values()))
        installed = {
            str(bridge): float(count)
            for bridge, count in zip(agents, asked, strict=True)
            if count is not None
        }
        return [
            labelled(names.BUILD, {self.version: 1}),
            *self._calls(),
            *self._flows(),
            labelled(names.INSTALLED, installed),
            *self._packets(),
            *self._records(),
            *self._network(),
            *self._cluster(),
            *((labelled(names.EXPIRY, self.tls.expiry()),) if self.tls is not None else ()),
            *(_kubernetes(self.kubernetes.report()) if self.kubernetes is not None else ()),
        ]

    def _calls(self) -> Iterator[Reading]:
        yield Reading(names.REQUESTS, dict(self.requests.answered))
        yield Reading(names.REQUEST_SECONDS, self.requests.seconds.copy())
        yield Reading(names.CALLS, dict(self.calls.answered))
        yield Reading(names.CALL_SECONDS, self.calls.seconds.copy())
        yield Reading(names.STAGES, self.pod_services.host.stages.seconds.copy())
        yield labelled(names.COLLECTED, self.pod_services.garbage_collector.tally)

    def _flows(self) -> Iterator[Reading]:
        yield self._bridges(names.WANTED, lambda agent: len(agent.desired.flows))
        yield self._bridges(names.REFUSED, lambda agent: len(agent.sync.refused))
        yield self._bridges(names.SYNCED, lambda agent: agent.sync.fully_synced)
        yield self._bridges(names.COMPARISONS, lambda agent: agent.sync.comparisons)
        yield self._bridges(names.DIFFERENCES, lambda agent: agent.sync.differences)
        yield self._bridges(
            names.FLOW_MODS, lambda agent: agent.switch.counters.get("flow_mods", 0)
        )
        yield self._bridges(names.CONNECTED, lambda agent: agent.connected)
        yield self._bridges(names.SESSIONS, lambda agent: agent.switch.counters.get("sessions", 0))
        yield self._bridges(
            names.SWITCH_ERRORS, lambda agent: agent.switch.counters.get("errors", 0)
        )

    def _packets(self) -> Iterator[Reading]:
        yield self._bridges(
            names.PACKET_INS, lambda agent: agent.switch.counters.get("packet_in", 0)
        )
        counters = {"sent": "packet_out", "dropped": "packet_out_dropped"}
        yield Reading(
            names.PACKET_OUTS,
            {
                (str(bridge), outcome): float(agent.switch.counters.get(counter, 0))
                for bridge, agent in self.dataplane.agents.items()
                for outcome, counter in counters.items()
            },
        )
        yield Reading(
            names.EVENTS,
            {
                (str(bridge), event): float(count)
                for bridge, agent in self.dataplane.agents.items()
                for event, count in agent.stats.items()
            },
        )

    def _records(self) -> Iterator[Reading]:
        progress = self.dataplane.progress
        yield labelled(names.REALISED, progress.realised)
        yield single(names.REALISE_SECONDS, progress.realise_seconds.copy())
        yield single(names.BEHIND, progress.behind)
        yield single(names.WAITING, self.dataplane.feed.waiting)
        yield single(names.UNDECODABLE, self.dataplane.feed.undecodable)
        yield labelled(names.FAULTS, progress.fault_counts())

    def _network(self) -> Iterator[Reading]:
        worlds = {str(bridge): agent.world for bridge, agent in self.dataplane.agents.items()}
        yield Reading(names.ENDPOINTS, dict(_endpoints(worlds)))
        yield labelled(names.SERVICES, {at: len(world.services) for at, world in worlds.items()})
        yield Reading(names.SERVICE_PORTS, dict(_service_ports(worlds)))
        wanted = set(self.dataplane.world.peers.tunnel_ends())
        ready = wanted & self.dataplane.agents[Bridge.VXLAN].world.vteps.keys()
        yield labelled(names.TUNNELS, {"wanted": len(wanted), "ready": len(ready)})
        mtus = self.pod_services.mtus
        yield labelled(names.POD_MTU, {str(bridge): mtus.of(bridge) for bridge in Bridge})
        yield single(names.PATHS, self.dataplane.progress.fault_counts().get("paths", 0))
        yield from self._tunnels()
        yield single(names.GUARDED, self.pod_services.guard_drops.dropped)
        yield single(names.GUARD_STOPS, self.pod_services.guard_drops.stopped)
        yield from self._bgp()

    def _tunnels(self) -> Iterator[Reading]:
        records = self.pod_services.tunnel_probes.records.items()
        yield labelled(names.TUNNEL_LOSS, {str(host): one.loss for host, one in records})
        seconds = {str(host): one.seconds for host, one in records}
        known = {host: one for host, one in seconds.items() if one is not None}
        yield labelled(names.TUNNEL_SECONDS, known)

    def _bgp(self) -> Iterator[Reading]:
        speaker = self.host_services.bgp.speaker
        if speaker is not None:
            yield single(names.BGP_UP, float(speaker.established))
            yield single(names.BGP_ROUTES, len(speaker.routes))
            yield single(names.BGP_ANNOUNCED, len(speaker.announced))
            counts = speaker.counts
            events = {"established": counts["Established"], "lost": counts["Flops"]}
            yield labelled(names.BGP_SESSIONS, events)

    def _cluster(self) -> Iterator[Reading]:
        yield labelled(names.DNS, self.dataplane.names.totals())
        yield single(names.LEADER_KNOWN, float(self.leader.leader is not None))
        held = sum(1 for one in self.registrations if one.registered)
        states = {"registered": held, "all": len(self.registrations)}
        yield labelled(names.REGISTERED, states)
        yield single(names.LEASES_LOST, self.lease.losses)
        yield single(names.TASKS, self.supervisor.spawn_failures)
        yield labelled(names.LOOP_FAILURES, self.loops.failures)
        yield labelled(names.LOOPS_FAILING, self.loops.failing())

    def _bridges(self, metric: Metric, value: Callable[[BridgeAgent], float]) -> Reading:
        agents = self.dataplane.agents.items()
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


def _kubernetes(report: Mapping[str, Any]) -> Iterator[Reading]:
    resources = report["resources"].items()
    yield labelled(names.KUBE_OBJECTS, {name: one["objects"] for name, one in resources})
    yield labelled(names.KUBE_LISTED, {name: float(one["listed"]) for name, one in resources})
    ages = {name: one["lastEventSeconds"] for name, one in resources}
    yield labelled(names.KUBE_SILENT, {name: age for name, age in ages.items() if age is not None})
    yield labelled(names.KUBE_FAULTY, {name: float(bool(one["fault"])) for name, one in resources})
