"""Builds the host's own services: its ports, infra networks, BGP, both guards, names for the host.

In come the clients, the data plane and the client of netmaster; nothing is created on the host yet.
`netplugin.startup.resync` runs them.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bgp.host import BgpHost, HostBgp
from netplugin.bridges import host_guard, host_names, pod_guard
from netplugin.bridges.forward_check import ForwardCheck
from netplugin.bridges.host_access import CHAINS, HostAccess
from netplugin.bridges.host_guard import HostGuard
from netplugin.bridges.host_names import HostNames
from netplugin.bridges.host_ports import InterfaceContext
from netplugin.bridges.infra import Infra
from netplugin.bridges.pod_guard import HostAddresses, PodGuard
from netplugin.dns.host_server import HostServer
from netplugin.masters.client import MasterApi
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Tasks
from netplugin.startup.dataplane import Dataplane
from netplugin.world import port_names
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """The owners of `contivh0`, interfaces on infra networks, `inb01`; both guards; names.

    And what looks at the rules of others (`forward_check`).
    """

    host_access: HostAccess
    forward_check: ForwardCheck
    infra: Infra
    bgp: HostBgp
    pod_guard: PodGuard
    host_guard: HostGuard
    host_names: HostNames

    def tasks(self) -> Tasks:
        """Return what runs for the life of the agent, by name."""
        return {
            "host access": self.host_access.run,
            "forward check": self.forward_check.run,
            "pod guard": self.pod_guard.run,
            "host guard": self.host_guard.run,
            "names for this host": self.host_names.run,
            "infra networks": self.infra.run,
            "BGP": self.bgp.run,
        }


def build_host_services(
    context: Context, clients: Clients, dataplane: Dataplane, master: MasterApi
) -> HostServices:
    """Return the services of the host's own ports, none of them running."""
    settings = context.settings
    server = HostServer(dataplane.names.of_host, context.supervisor)
    context.stack.push_async_callback(server.close)
    interfaces = InterfaceContext(
        ovsdb=clients.ovsdb,
        host_ports=clients.host_ports,
        world=dataplane.world,
        records=dataplane.records,
        interval=settings.audit_interval,
        show=dataplane.progress.set_faults,
        firewall_lost=clients.firewall_watch.lost,
        routing_lost=clients.route_watch.lost,
        underlay_changed=clients.underlay_routes.changed,
        settle_underlay=clients.underlay_routes.settle,
    )
    return HostServices(
        host_access=HostAccess(
            interfaces,
            iptables=clients.iptables(CHAINS),
            address=settings.vtep_ip,
            own_addresses=clients.links.own_addresses,
            addresses_changed=clients.address_watch.changed,
            ports_changed=dataplane.reconciler.ports_changed,
            report_faults=partial(dataplane.progress.set_faults, "host routes"),
        ),
        forward_check=ForwardCheck(interfaces, clients.refusals, clients.firewall_watch.changed),
        infra=Infra(interfaces, host=settings.host, master=master, services=context.service_subnet),
        bgp=HostBgp(
            BgpHost(
                ovsdb=clients.ovsdb,
                host_ports=clients.host_ports,
                world=dataplane.world,
                reconciler=dataplane.reconciler,
                agent=dataplane.agents[Bridge.VLAN],
                routing_lost=clients.route_watch.lost,
            ),
            show=dataplane.progress.set_faults,
            interval=settings.audit_interval,
            timing=context.timing.bgp,
            connect=clients.dial_bgp,
        ),
        pod_guard=PodGuard(
            settings,
            dataplane.world.management,
            clients.store,
            HostAddresses(
                current=partial(clients.links.addresses, _is_pods),
                changed=clients.address_watch.changed,
            ),
            clients.iptables(pod_guard.CHAINS),
            firewall_lost=clients.firewall_watch.lost,
            known=dataplane.world.underlay,
        ),
        host_guard=HostGuard(
            interfaces, clients.iptables(host_guard.CHAINS), clients.chains(host_guard.PREFIX)
        ),
        host_names=HostNames(
            interfaces,
            clients.iptables(host_names.CHAINS),
            settings.dns_address,
            server.start,
        ),
    )


def _is_pods(link: str) -> bool:
    return port_names.pod_number(link) is not None
