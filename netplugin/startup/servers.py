"""Opens the agent's servers: control channel, CNI (not in the modes of docker), Mesos, REST.

The last step of a start (`netplugin.startup.daemon`): whoever finds the agent in the store finds
one that answers.
"""

import logging
from functools import partial

from core.errors import ContivError
from core.retry import Loop, retry
from daemons.diagnosis import as_json, constant_text, log_lines
from daemons.health import Health
from daemons.metrics_page import MetricsPage
from daemons.request_stats import RequestStats
from netplugin.cni import server as cni
from netplugin.cni.server import PodInterfaces
from netplugin.diagnostics import diagnosis, rule_hits
from netplugin.diagnostics.capture import Captures
from netplugin.diagnostics.dry_run import DryRuns
from netplugin.diagnostics.live_trace import LiveTraces
from netplugin.diagnostics.selftest import SelfTest
from netplugin.kernel import conntrack, icmp
from netplugin.kube.feed import KubeFeed
from netplugin.masters import registration
from netplugin.masters.control import ControlChannel
from netplugin.masters.leader import LeaderClient
from netplugin.masters.spread import Spread
from netplugin.mesos import server as mesos
from netplugin.pods import link_keeper
from netplugin.pods.mtu import VXLAN_OVERHEAD
from netplugin.startup import inspect
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.early_health import EarlyHealth
from netplugin.startup.host_numbers import HostNumbers
from netplugin.startup.host_services import HostServices
from netplugin.startup.inspect import Inspector
from netplugin.startup.metrics import AgentMetrics
from netplugin.startup.pod_services import PodServices
from netplugin.trace.asides import Asides
from netplugin.trace.dataplane_checks import DataplaneChecks
from netplugin.trace.tracer import Tracer
from objdb.registration import TTL
from objdb.shared_lease import SharedLease
from ofnet.inspection import AgentIdentity
from ofnet.world import Bridge

log = logging.getLogger(__name__)


async def start_servers(
    context: Context,
    clients: Clients,
    dataplane: Dataplane,
    host_services: HostServices,
    pod_services: PodServices,
    *,
    leader: LeaderClient,
    kube_feed: KubeFeed | None = None,
    early: EarlyHealth,
) -> None:
    """Open the control channel, CNI and REST, and register each once it can be reached.

    The server of the start, which has the address of REST, is closed for it.
    """
    settings = context.settings
    control = ControlChannel(
        clients.store,
        settings.host,
        str(settings.ctrl_ip),
        dataplane.progress,
        spread=Spread(dataplane.world.peers.count),
        tls=context.tls,
    )

    def identity(bridge: Bridge) -> AgentIdentity:
        masters = {node.host: node.port for node in control.masters.values()}
        return AgentIdentity(
            local_ip=str(settings.vtep_ip), port=control.port(bridge), masters=masters
        )

    requests, calls = RequestStats(), RequestStats()
    lease = SharedLease(clients.store, TTL)
    metrics = AgentMetrics(
        version=context.version,
        requests=requests,
        calls=calls,
        dataplane=dataplane,
        host_services=host_services,
        pod_services=pod_services,
        lease=lease,
        registrations=[],
        leader=leader,
        supervisor=context.supervisor,
        loops=context.loops,
        kubernetes=kube_feed,
        tls=context.tls,
    )
    page = MetricsPage(metrics, HostNumbers(settings.journal, clients.vswitchd.call))
    tracer = _tracer(context, clients, dataplane, pod_services)
    inspector = Inspector(
        agents=dataplane.agents,
        identity=identity,
        names=dataplane.names,
        pods=pod_services.pods,
        bgp=host_services.bgp,
        collected=pod_services.garbage_collector.tally,
        kubernetes=kube_feed.report if kube_feed is not None else None,
        metrics=page,
        tracer=tracer,
    )
    rpc_ports = {Bridge.VXLAN: settings.vxlan_rpc_port, Bridge.VLAN: settings.vlan_rpc_port}
    await control.start(rpc_ports, inspector.report, context.stack)
    context.supervisor.supervise("control channel", control.run())
    # The settings may ask for port 0: a registration names the port that was really taken.
    bound = [control.port(bridge) for bridge in Bridge]
    services = registration.instances(settings, bound, context.version)
    registered = registration.register(clients.store, lease, services, context.supervisor)
    metrics.registrations.extend(registered)
    if settings.docker is None:
        await context.stack.enter_async_context(
            cni.serve(settings.cni_socket, pod_services.calls, stats=calls)
        )
    await serve_mesos(context, pod_services.pods)
    checks = dict(pod_services.readiness.checks())
    if kube_feed is not None:
        checks["kubernetes"] = kube_feed.ready
    health = Health(checks, known=pod_services.readiness.known)
    tests = SelfTest(
        # not for `/readyz`: ADDs can be carried out
        ready={**checks, link_keeper.SUBJECT: pod_services.link_keeper.whole},
        agents=dataplane.agents,
        names=dataplane.names,
        peers=dataplane.world.peers.tunnel_ends,
        size=lambda: pod_services.mtus.of(Bridge.VXLAN) + VXLAN_OVERHEAD,
        probe=partial(icmp.passes, source=settings.vtep_ip),
        tunnel_faults=lambda: pod_services.tunnel_probes.faults,
    )
    captures = Captures(dataplane.agents, clients.ovsdb, inspector.asked_by_master)
    live = LiveTraces(tracer, dataplane.agents, clients.ovsdb, inspector.asked_by_master)
    asked = [
        *live.routes(),
        *captures.routes(),
        *DryRuns(dataplane.world, dataplane.feed, inspector.asked_by_master).routes(),
        *tests.routes(),
        *dataplane.policy_log.routes(dataplane.agents),
        *rule_hits.routes(dataplane.agents, dataplane.world.pod_policies.policies),
        *diagnosis.routes({
            "version.txt": partial(constant_text, f"{context.version}\n"),
            "settings.json": partial(constant_text, as_json(settings)),
            "health.json": health.report,
            "inspect.json": inspector.text,
            "links.json": partial(_links, clients),
            "ovsdb.json": partial(diagnosis.ovsdb_rows, clients.ovsdb),
            **diagnosis.flow_parts(dataplane.agents),
            "metrics.txt": page.plain_text,
            "log.txt": log_lines,
        }),
    ]  # fmt: skip
    app = inspect.application(health, inspector, asked)
    await early.close()
    rest_port = await context.stack.enter_async_context(
        inspect.serve(early.listening(), app, context.tls, stats=requests)
    )
    rest = registration.rest_instance(settings, rest_port, context.version)
    registered = registration.register(clients.store, lease, [rest], context.supervisor)
    metrics.registrations.extend(registered)


async def _links(clients: Clients) -> str:
    return as_json(await clients.links.picture())


def _tracer(
    context: Context, clients: Clients, dataplane: Dataplane, pod_services: PodServices
) -> Tracer:
    checks = DataplaneChecks(
        agents=dataplane.agents,
        ovsdb=clients.ovsdb,
        links=clients.links,
        check=pod_services.check,
        progress=dataplane.progress,
    )
    return Tracer(
        host=context.settings.host,
        agents=dataplane.agents,
        control=clients.vswitchd,
        checks=checks,
        asides=Asides(pod_services.guard_drops.note, conntrack.entries).of,
        policies=dataplane.world.pod_policies.policies,
    )


async def serve_mesos(context: Context, pods: PodInterfaces) -> None:
    """Serve Mesos, as the original does in every mode; an agent without it serves the rest."""
    path = context.settings.run_dir / mesos.SOCKET
    loop = Loop(log, "Mesos not served", about=str(path))

    async def serve() -> None:
        await context.stack.enter_async_context(mesos.serve(path, pods))

    try:
        await serve()
    except ContivError as exc:
        loop.failed(exc)
        context.supervisor.spawn("Mesos", retry(loop, serve))
