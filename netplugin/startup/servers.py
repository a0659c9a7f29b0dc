"""Lets others reach an agent that works: masters, runtimes, and who wants to look inside.

Comes last in a start (`netplugin.startup.daemon`): who finds the agent in the store finds one that
answers.
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


async def serve(
    life: Context, doors: Clients, plane: Dataplane, own: HostServices, care: PodServices
) -> None:
    """Open the control channel, CNI and REST, and register each when it can be reached."""
    settings = life.settings
    control = ControlChannel(doors.store, settings.host, str(settings.ctrl_ip), plane.progress)

    def identity(bridge: Bridge) -> AgentIdentity:
        masters = {node.host: node.port for node in control.masters.values()}
        return AgentIdentity(
            local_ip=str(settings.vtep_ip), port=control.port(bridge), masters=masters
        )

    inspector = Inspector(
        agents=plane.agents,
        identity=identity,
        names=plane.names,
        pods=care.pods,
        bgp=own.bgp,
        mended=care.leaks.tally,
    )
    rpc = {Bridge.VXLAN: settings.vxlan_rpc_port, Bridge.VLAN: settings.vlan_rpc_port}
    await control.start(rpc, inspector.report, life.stack)
    life.sup.supervise("control channel", control.run())
    reached_at = [control.port(bridge) for bridge in Bridge]
    services = registration.instances(settings, reached_at, life.version)
    registration.register(doors.store, services, life.sup)
    await life.stack.enter_async_context(cni.serve(settings.cni_socket, care.pods))
    rest = await life.stack.enter_async_context(
        inspect.serve(settings.rest, inspector.application())
    )
    found_at = registration.rest_instance(settings, rest, life.version)
    registration.register(doors.store, [found_at], life.sup)
