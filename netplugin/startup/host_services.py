"""Builds the host's own services: its ports, infra networks, BGP, guards, the name service.

In come the clients, the data plane and what pods have of this host; nothing is created on the host
yet. `netplugin.startup.resync` publishes what exists, `netplugin.startup.daemon` runs them.
"""

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from core.errors import HostError
from core.ids import EndpointKey
from core.metrics import Reading, labelled, single
from netplugin.bgp.host_bgp import BgpHost, HostBgp
from netplugin.bridges.guards import host_guard, pod_guard
from netplugin.bridges.guards.guard_drops import GuardDrops
from netplugin.bridges.guards.host_guard import HostGuard
from netplugin.bridges.guards.pod_guard import PodGuard
from netplugin.bridges.host import host_names
from netplugin.bridges.host.forward_check import ForwardCheck
from netplugin.bridges.host.host_access import CHAINS, HostAccess
from netplugin.bridges.host.host_names import HostNames
from netplugin.bridges.host.host_ports import InterfaceContext
from netplugin.bridges.host.infra import Infra
from netplugin.bridges.host.name_ports import NamePorts
from netplugin.bridges.host.underlay_routes import UnderlayRoutes
from netplugin.dns.host_server import HostServer
from netplugin.dns.tcp_server import TcpServer
from netplugin.pods.registry.pod_host import PodHost
from netplugin.startup import metric_names as names
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Subsystem, Task, Tasks
from netplugin.startup.dataplane import Dataplane
from ofnet.pipelines.features.name_port import RELAYED_DSCP
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class HostServices(Subsystem):
    """The owners of `contivh0`, interfaces on infra networks, `inb01`; the guards; names.

    And what looks at the rules of others (`forward_check`).
    """

    host_access: HostAccess
    forward_check: ForwardCheck
    infra: Infra
    bgp: HostBgp
    pod_guard: PodGuard
    host_guard: HostGuard
    guard_drops: GuardDrops
    guarded: bool
    """Whether a guard is on, so that there are drops to count."""
    host_names: HostNames
    underlay_routes: UnderlayRoutes
    interfaces: InterfaceContext
    name_ports: NamePorts
    """Not among the tasks: from its run on requests of pods come to this agent."""

    def tasks(self) -> Tasks:
        """Return what keeps each of them."""
        tasks: dict[str, Task] = {
            "underlay": partial(self.underlay_routes.run, self.interfaces),
            "host access": self.host_access.run,
            "forward check": self.forward_check.run,
            "pod guard": self.pod_guard.run,
            "host guard": self.host_guard.run,
            "names for this host": self.host_names.run,
            "infra networks": self.infra.run,
            "BGP": self.bgp.run,
        }
        if self.guarded:
            tasks["guard drops"] = self.guard_drops.run
        return tasks

    async def readings(self) -> Iterable[Reading]:
        """Return what the guards dropped, and the state of BGP."""
        return [
            single(names.GUARDED, self.guard_drops.dropped),
            single(names.GUARD_STOPS, self.guard_drops.stopped),
            single(names.CLOSED, self.guard_drops.closed),
            *self._bgp(),
        ]

    def _bgp(self) -> Iterator[Reading]:
        speaker = self.bgp.speaker
        if speaker is not None:
            yield single(names.BGP_UP, float(speaker.established))
            yield single(names.BGP_ROUTES, len(speaker.routes))
            yield single(names.BGP_ANNOUNCED, len(speaker.announced))
            counts = speaker.counts
            events = {"established": counts["Established"], "lost": counts["Flops"]}
            yield labelled(names.BGP_SESSIONS, events)


def build_host_services(
    context: Context, clients: Clients, dataplane: Dataplane, host: PodHost
) -> HostServices:
    """Return the services of the host's own ports, none of them running."""
    settings, tools = context.settings, clients.tools
    server = HostServer(dataplane.names.of_host, context.supervisor)
    context.stack.push_async_callback(server.close)
    interfaces = InterfaceContext(
        ovsdb=clients.ovsdb,
        links=clients.links,
        host_ports=clients.host_ports,
        world=dataplane.world,
        records=dataplane.records,
        interval=settings.audit_interval,
        board=dataplane.progress,
        watches=clients.watches,
        underlay=clients.underlay_routes,
    )
    return HostServices(
        host_access=HostAccess(
            interfaces,
            iptables=tools.iptables(CHAINS),
            address=settings.tunnel_source,
            reconciler=dataplane.reconciler,
        ),
        forward_check=ForwardCheck(
            interfaces, tools.refusals, spacing=context.timing.firewall_spacing
        ),
        infra=Infra(
            interfaces,
            host=settings.host,
            master=host.master,
            services=context.service_subnet,
        ),
        bgp=HostBgp(
            BgpHost(
                ovsdb=clients.ovsdb,
                host_ports=clients.host_ports,
                world=dataplane.world,
                reconciler=dataplane.reconciler,
                agent=dataplane.agents[Bridge.VLAN],
                routes=clients.watches.routes,
            ),
            board=dataplane.progress,
            interval=settings.audit_interval,
            timing=context.timing.bgp,
            connect=clients.dial_bgp,
        ),
        pod_guard=PodGuard(
            settings,
            dataplane.world.management,
            clients.store,
            clients.links,
            tools.iptables(pod_guard.CHAINS),
            watches=clients.watches,
            known=dataplane.world.underlay,
        ),
        host_guard=HostGuard(
            interfaces, tools.iptables(host_guard.CHAINS), tools.chains(host_guard.PREFIX)
        ),
        guard_drops=_guard_drops(dataplane),
        guarded=settings.source_guard or settings.pod_guard,
        host_names=HostNames(
            interfaces,
            tools.iptables(host_names.CHAINS),
            settings.dns_address,
            server,
        ),
        underlay_routes=clients.underlay_routes,
        interfaces=interfaces,
        name_ports=_name_ports(context, dataplane, host, interfaces),
    )


def _guard_drops(dataplane: Dataplane) -> GuardDrops:
    if dataplane.pod_metrics is None:
        return GuardDrops(dataplane.agents)
    return GuardDrops(dataplane.agents, note=dataplane.pod_metrics.guarded)


def _name_ports(
    context: Context, dataplane: Dataplane, host: PodHost, interfaces: InterfaceContext
) -> NamePorts:
    async def pod_socket(key: EndpointKey, version: int) -> socket.socket:
        entry = host.registry.get(key)
        if entry is None:
            raise HostError(f"endpoint {key} is not on this host any more")
        return await host.links.pod_socket(entry.netns, RELAYED_DSCP, version)

    servers = {
        bridge: TcpServer(agent.directory, dataplane.names.resolve, pod_socket)
        for bridge, agent in dataplane.agents.items()
    }
    return NamePorts(
        interfaces, servers, directory=context.settings.run_dir, tx_off=host.settings.tx_off
    )
