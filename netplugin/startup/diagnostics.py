"""Builds what operators ask of all hosts at once: traces, captures, tests, counters, the bundle.

In come the parts it reads; out come routes. Next: `netplugin.diagnostics`, `netplugin.trace`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from daemons.diagnosis_parts import as_json, constant_text, log_lines
from daemons.health import Health
from daemons.metrics_page import MetricsPage
from netplugin.diagnostics import adds, diagnosis, kubernetes_rules, rule_hits
from netplugin.diagnostics.capture import Captures
from netplugin.diagnostics.dry_run import DryRuns
from netplugin.diagnostics.live_trace import LiveTraces
from netplugin.diagnostics.selftest import HostSelfTest
from netplugin.flow_records import report as flow_report
from netplugin.kernel import conntrack
from netplugin.kernel.packets import icmp
from netplugin.pods import link_keeper
from netplugin.startup.agent import Agent
from netplugin.startup.context import Context, Subsystem
from netplugin.startup.inspect import Inspector
from netplugin.trace.asides import Asides
from netplugin.trace.dataplane_checks import DataplaneChecks
from netplugin.trace.tracer import Tracer


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics(Subsystem):
    """What an agent answers beside its inspection (`inspector`) and `health`."""

    context: Context
    agent: Agent
    inspector: Inspector
    tracer: Tracer
    health: Health
    page: MetricsPage

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the routes of `netplugin.diagnostics`."""
        clients, dataplane = self.agent.clients, self.agent.dataplane
        agents, world, inspector = dataplane.agents, dataplane.world, self.inspector
        policies = world.pod_policies.policies
        return [
            *LiveTraces(self.tracer, agents, clients.ovsdb, inspector).routes(),
            *Captures(agents, clients.ovsdb, inspector).routes(),
            *DryRuns(world, dataplane.feed, inspector).routes(),
            *self._self_test().routes(),
            *dataplane.policy_log.routes(agents),
            *flow_report.routes(dataplane.flow_recorder, self.context.settings.host),
            *adds.routes(self.agent.pod_services.host.adds),
            *rule_hits.routes(agents, policies),
            *kubernetes_rules.routes(agents, policies, world.services.kube.values),
            *diagnosis.routes({
                "version.txt": partial(constant_text, f"{self.context.version}\n"),
                "settings.json": partial(constant_text, as_json(self.context.settings)),
                "health.json": self.health.report,
                "inspect.json": inspector.text,
                "links.json": self._links,
                "ovsdb.json": partial(diagnosis.ovsdb_rows, clients.ovsdb),
                **diagnosis.flow_parts(agents),
                "metrics.txt": self.page.plain_text,
                "log.txt": log_lines,
            }),
        ]  # fmt: skip

    def _self_test(self) -> HostSelfTest:
        dataplane, pods = self.agent.dataplane, self.agent.pod_services
        return HostSelfTest(
            # not for `/readyz`: ADDs can be carried out
            ready={**self.health.checks, link_keeper.SUBJECT: pods.link_keeper.whole},
            agents=dataplane.agents,
            names=dataplane.names,
            endpoints=dataplane.world.endpoints,
            peers=dataplane.world.peers,
            sizes=pods.mtus,
            probe=partial(icmp.passes, sources=self.context.settings.vtep_ips),
            tunnels=self.agent.tunnels.probes,
        )

    async def _links(self) -> str:
        return as_json(await self.agent.clients.links.picture())


def build_tracer(context: Context, agent: Agent) -> Tracer:
    """Return what follows packets on this host."""
    dataplane = agent.dataplane
    checks = DataplaneChecks(
        agents=dataplane.agents,
        ovsdb=agent.clients.ovsdb,
        links=agent.clients.links,
        check=agent.pod_services.check,
        progress=dataplane.progress,
    )
    return Tracer(
        host=context.settings.host,
        agents=dataplane.agents,
        control=agent.clients.vswitchd,
        checks=checks,
        asides=Asides(agent.host_services.guard_drops, conntrack.entries),
        policies=dataplane.world.pod_policies.policies,
    )
