"""Opens the agent's servers: control channel, CNI (not in the modes of docker), Mesos, REST.

The last step of a start (`netplugin.startup.daemon`): whoever finds the agent in the store finds
one that answers.
"""

import logging

from core.errors import ContivError
from core.retry import Loop, retry
from daemons.health import Health
from daemons.metrics_page import MetricsPage
from netplugin.cni import server as cni
from netplugin.cni.server import PodInterfaces
from netplugin.masters import registration
from netplugin.mesos import server as mesos
from netplugin.startup import inspect
from netplugin.startup.agent import Agent
from netplugin.startup.agent_metrics import AgentMetrics
from netplugin.startup.context import Context
from netplugin.startup.diagnostics import Diagnostics, build_tracer
from netplugin.startup.early_health import EarlyHealth
from netplugin.startup.host_numbers import HostNumbers
from netplugin.startup.inspect import Inspector
from ofnet.world import Bridge

log = logging.getLogger(__name__)


async def start_servers(context: Context, agent: Agent, early: EarlyHealth) -> None:
    """Open the control channel, CNI and REST, and register each once it can be reached.

    The server of the start, which has the address of REST, is closed for it.
    """
    settings, clients, pods = context.settings, agent.clients, agent.pod_services
    metrics = AgentMetrics(context=context, subsystems=agent)
    page = MetricsPage(metrics, HostNumbers(settings.journal, clients.vswitchd))
    tracer = build_tracer(context, agent)
    kubernetes, membership = agent.kubernetes, agent.membership
    inspector = Inspector(
        agents=agent.dataplane.agents,
        membership=membership,
        names=agent.dataplane.names,
        pods=pods.pods,
        bgp=agent.host_services.bgp,
        collected=pods.garbage_collector.tally,
        kubernetes=kubernetes.feed if kubernetes is not None else None,
        metrics=page,
        tracer=tracer,
    )
    control = membership.control
    rpc_ports = {Bridge.VXLAN: settings.vxlan_rpc_port, Bridge.VLAN: settings.vlan_rpc_port}
    await control.start(rpc_ports, inspector.report, context.stack)
    context.supervisor.supervise("control channel", control.run())
    # The settings may ask for port 0: a registration names the port that was really taken.
    bound = [control.port(bridge) for bridge in Bridge]
    membership.services.register(registration.instances(settings, bound, context.version))
    if settings.docker is None:
        await context.stack.enter_async_context(
            cni.serve(settings.cni_socket, pods.calls, stats=metrics.calls)
        )
    await serve_mesos(context, pods.pods)
    health = Health(
        agent.checks(),
        known=pods.readiness.known,
        faults=agent.dataplane.progress.summary,
    )
    diagnostics = Diagnostics(
        context=context, agent=agent, inspector=inspector, tracer=tracer, health=health, page=page
    )
    app = inspect.application(health, inspector, diagnostics.routes())
    await early.close()
    rest_port = await context.stack.enter_async_context(
        inspect.serve(early.listening(), app, context.tls, stats=metrics.requests)
    )
    rest = registration.rest_instance(settings, rest_port, context.version)
    membership.services.register([rest])


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
