"""Opens the agent's servers: control channel, CNI socket and REST.

The last step of a start (`netplugin.startup.daemon`): whoever finds the agent in the store finds
one that answers.
"""

from netplugin.cni import server as cni
from netplugin.masters import registration
from netplugin.masters.control import ControlChannel
from netplugin.startup import inspect
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.host_services import HostServices
from netplugin.startup.inspect import Inspector
from netplugin.startup.pod_services import PodServices
from ofnet.inspection import AgentIdentity
from ofnet.world import Bridge


async def start_servers(
    context: Context,
    clients: Clients,
    dataplane: Dataplane,
    host_services: HostServices,
    pod_services: PodServices,
) -> None:
    """Open the control channel, CNI and REST, and register each once it can be reached."""
    settings = context.settings
    control = ControlChannel(
        clients.store,
        settings.host,
        str(settings.ctrl_ip),
        dataplane.progress,
        tls=context.tls,
    )

    def identity(bridge: Bridge) -> AgentIdentity:
        masters = {node.host: node.port for node in control.masters.values()}
        return AgentIdentity(
            local_ip=str(settings.vtep_ip), port=control.port(bridge), masters=masters
        )

    inspector = Inspector(
        agents=dataplane.agents,
        identity=identity,
        names=dataplane.names,
        pods=pod_services.pods,
        bgp=host_services.bgp,
        collected=pod_services.garbage_collector.tally,
    )
    rpc_ports = {Bridge.VXLAN: settings.vxlan_rpc_port, Bridge.VLAN: settings.vlan_rpc_port}
    await control.start(rpc_ports, inspector.report, context.stack)
    context.supervisor.supervise("control channel", control.run())
    # The settings may ask for port 0: a registration names the port that was really taken.
    bound = [control.port(bridge) for bridge in Bridge]
    services = registration.instances(settings, bound, context.version)
    registration.register(clients.store, services, context.supervisor)
    await context.stack.enter_async_context(cni.serve(settings.cni_socket, pod_services.pods))
    rest_port = await context.stack.enter_async_context(
        inspect.serve(settings.rest, inspector.application(), context.tls)
    )
    rest = registration.rest_instance(settings, rest_port, context.version)
    registration.register(clients.store, [rest], context.supervisor)
