"""Builds what serves docker: the plugin socket, both drivers, and what follows the engine.

The socket opens first of all (`open_plugin`); the calls that need an agent are answered once it is
ready (`start_docker`). In the modes docker and swarm-mode; all others have no driver.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from netplugin.libnetwork.containers import Containers
from netplugin.libnetwork.docknets import Docknets
from netplugin.libnetwork.endpoint_check import EndpointCheck
from netplugin.libnetwork.endpoints import NetworkDriver
from netplugin.libnetwork.engine import Engine
from netplugin.libnetwork.network_file import NetworkFiles
from netplugin.libnetwork.networks import NetworkNames
from netplugin.libnetwork.pools import IpamDriver
from netplugin.libnetwork.server import Handler, PluginServer
from netplugin.libnetwork.swarm import SwarmNetworks
from netplugin.libnetwork.sync import EngineSync, Followers
from netplugin.settings import DockerScope, DockerSettings
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.pod_services import PodServices

FREED: Final = "freed"
"""Directory of networks of a swarm that docker has removed and netmaster has not."""


async def open_plugin(
    context: Context, docker: DockerSettings
) -> Callable[[Dataplane, PodServices], Awaitable[None]]:
    """Open the plugin socket; return `start_docker` for it. Raises HostError, Invalid."""
    in_swarm = docker.scope is DockerScope.SWARM
    server = PluginServer(DockerScope.GLOBAL if in_swarm else docker.scope)
    await context.stack.enter_async_context(server.listening(docker.plugin_socket))
    return partial(start_docker, context, docker, server)


async def start_docker(
    context: Context,
    docker: DockerSettings,
    server: PluginServer,
    dataplane: Dataplane,
    pod_services: PodServices,
) -> None:
    """Have the server answer all calls, and follow the engine. Raises HostError."""
    files = NetworkFiles(docker.networks)
    await files.load()
    host, world = pod_services.host, dataplane.world
    engine = Engine(str(docker.engine), docker.driver)
    names = NetworkNames(files, world, dataplane.records, engine)
    in_swarm = docker.scope is DockerScope.SWARM
    ipam = IpamDriver(host.master, world, in_swarm=in_swarm)
    driver = NetworkDriver(pod_services.pods, names, ipam, world)
    progress = dataplane.progress
    own = docker.scope is DockerScope.LOCAL
    followers = Followers(
        containers=Containers(host.registry, world, host.master),
        endpoint_check=EndpointCheck(
            host.registry,
            pod_services.pods,
            progress,
            grace=context.settings.leak_grace,
        ),
        docknets=Docknets(engine, world, progress) if own else None,
    )
    calls = handlers(driver, ipam)
    if in_swarm:
        swarm = SwarmNetworks(host.master, world, docker.encap, docker.networks / FREED)
        calls |= swarm_handlers(swarm)
        context.supervisor.supervise("swarm networks", swarm.run())
    server.serve_calls(calls)
    sync = EngineSync(engine, names, driver, followers, dataplane.records)
    context.supervisor.supervise("docker engine", sync.run())


def handlers(driver: NetworkDriver, ipam: IpamDriver) -> dict[str, Handler]:
    """Return what carries out each call that needs an agent which is ready."""
    return {
        "NetworkDriver.CreateNetwork": driver.create_network,
        "NetworkDriver.DeleteNetwork": driver.delete_network,
        "NetworkDriver.CreateEndpoint": driver.create_endpoint,
        "NetworkDriver.EndpointOperInfo": driver.endpoint_oper_info,
        "NetworkDriver.Join": driver.join,
        "NetworkDriver.Leave": driver.leave,
        "NetworkDriver.DeleteEndpoint": driver.delete_endpoint,
        "NetworkDriver.ProgramExternalConnectivity": driver.told,
        "NetworkDriver.RevokeExternalConnectivity": driver.told,
        "IpamDriver.RequestPool": ipam.request_pool,
        "IpamDriver.ReleasePool": ipam.release_pool,
        "IpamDriver.RequestAddress": ipam.request_address,
        "IpamDriver.ReleaseAddress": ipam.release_address,
    }


def swarm_handlers(swarm: SwarmNetworks) -> dict[str, Handler]:
    """Return what carries out the calls that a manager of a swarm sends besides."""
    return {
        "NetworkDriver.AllocateNetwork": swarm.allocate_network,
        "NetworkDriver.FreeNetwork": swarm.free_network,
    }
