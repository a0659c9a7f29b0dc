"""Builds the services of this host's pods: ADD and DEL, ports, MTUs, teardown, garbage collection.

In come the clients, the data plane and the client of netmaster; out come services that have read
the journal. `netplugin.startup.resync` compares the journal with the host and runs them;
`netplugin.startup.servers` lets runtimes call them.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from core.errors import HostError
from core.ids import EndpointKey, HostLabel
from daemons.health import Check
from netplugin.bridges.bridges import USERSPACE
from netplugin.bridges.guard_drops import GuardDrops
from netplugin.bridges.host_ports import InterfaceContext
from netplugin.bridges.name_ports import NamePorts
from netplugin.bridges.tunnel_probes import TunnelProbes
from netplugin.cni.interface_spec import Delivery
from netplugin.cni.server import CniHandlers
from netplugin.dns.tcp_server import TcpServer
from netplugin.kernel import icmp
from netplugin.masters.client import MasterApi
from netplugin.pods import mapping_rules
from netplugin.pods.add import PodAdd
from netplugin.pods.adoption import Adoption
from netplugin.pods.block_renewal import BlockRenewal
from netplugin.pods.check import PodCheck
from netplugin.pods.claims import Claims
from netplugin.pods.collect import PodCollect
from netplugin.pods.endpoint_registry import EndpointRegistry
from netplugin.pods.garbage_collection import GarbageCollector
from netplugin.pods.handler import Pods
from netplugin.pods.host import PlacePod, PodHost, place_as_asked
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.link_keeper import LinkKeeper
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.port_mappings import MappingTools, PortMappings
from netplugin.pods.readiness import NOTHING, Readiness
from netplugin.pods.teardown import Teardown
from netplugin.settings import Settings
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Task, Tasks
from netplugin.startup.dataplane import Dataplane
from ofnet.pipelines.name_port import RELAYED_DSCP
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class PodServices:
    """The services of pods, and what they share; `calls` serves runtimes."""

    host: PodHost
    pods: Pods
    calls: CniHandlers
    check: PodCheck
    readiness: Readiness
    mtus: PodMtus
    ports: PodPorts
    link_keeper: LinkKeeper
    mappings: PortMappings
    teardown: Teardown
    garbage_collector: GarbageCollector
    host_interfaces: HostInterfaces
    claims: Claims
    blocks: BlockRenewal
    adoption: Adoption
    name_ports: NamePorts
    tunnel_probes: TunnelProbes
    guard_drops: GuardDrops

    def tasks(self, settings: Settings) -> Tasks:
        """Return what runs for the life of the agent, by name."""
        tasks: dict[str, Task] = {
            "endpoint ports": self.ports.run,
            "links of pods": self.link_keeper.run,
            "host ports": self.mappings.run,
            "claims": self.claims.run,
            "address blocks": self.blocks.run,
            "MTU": self.mtus.run,
            "interfaces to the host": self.host_interfaces.run,
        }
        if settings.probe_interval:
            tasks["tunnel probes"] = self.tunnel_probes.run
        if settings.source_guard:
            tasks["guard drops"] = self.guard_drops.run
        return tasks


async def build_pod_services(
    context: Context,
    clients: Clients,
    dataplane: Dataplane,
    master: MasterApi,
    place: PlacePod = place_as_asked,
    *,
    needed: Mapping[str, Check] = NOTHING,
) -> PodServices:
    """Read the links' MTUs and the journal, and return the services of pods, none running.

    `needed` are checks of what else an ADD needs, by name.
    """
    settings = context.settings
    registry = EndpointRegistry()
    blocks = BlockRenewal(
        settings.host,
        master,
        size=settings.address_blocks if settings.docker is None else 0,
        marker=settings.blocks_marker,
        rewinds=lambda: dataplane.records.rewinds,
        entries=lambda: (*registry.entries(), *teardown.entries()),
    )
    host = PodHost(
        label=settings.host,
        tx_off=dataplane.datapath == USERSPACE,
        service_subnet=context.service_subnet,
        master=master,
        journal=clients.journal,
        links=clients.links,
        ovsdb=clients.ovsdb,
        world=dataplane.world,
        reconciler=dataplane.reconciler,
        registry=registry,
        show=dataplane.progress.set_faults,
        blocks=blocks,
        place=place,
        timing=context.timing.pods,
    )
    teardown = Teardown(host, context.supervisor)
    mtus = PodMtus(
        host,
        vtep_ip=settings.vtep_ip,
        uplinks=settings.uplinks,
        wanted=settings.mtu,
        report_faults=partial(dataplane.progress.set_faults, "MTU"),
    )
    await mtus.read()
    ports = PodPorts(host, teardown)
    host_interfaces = HostInterfaces(host, ports, interval=settings.audit_interval)
    mappings = PortMappings(
        host,
        MappingTools(
            iptables=clients.iptables(mapping_rules.CHAINS),
            chains=clients.chains(mapping_rules.PREFIX),
            datagrams=dataplane.datagrams,
            in_use=clients.port_in_use,
            route_localnet=clients.route_localnet,
            address=settings.vtep_ip,
            firewall_lost=clients.firewall_watch.lost,
        ),
        interval=settings.audit_interval,
    )
    pod_add = PodAdd(host, mtus, ports, host_interfaces, mappings)
    claims = Claims(
        host, ports, partial(dataplane.progress.set_faults, "claims"), dataplane.progress.claimed
    )
    pods = Pods(host, pod_add, ports, teardown, mappings, report=claims.report)
    # The journal is taken over before any port number is handed out: numbers of endpoints that
    # were made, or half made, by the agent before this one must not be given again.
    pods.recover(await clients.journal.load())
    readiness = Readiness(clients.store, master, clients.ovsdb, dataplane.agents, further=needed)
    check = PodCheck(host, mtus, ports, mappings)
    return PodServices(
        host=host,
        pods=pods,
        check=check,
        calls=CniHandlers(
            pods,
            check,
            PodCollect(host.registry, pods, host.timing.collect_grace),
            readiness,
        ),
        readiness=readiness,
        mtus=mtus,
        ports=ports,
        link_keeper=LinkKeeper(host),
        mappings=mappings,
        teardown=teardown,
        garbage_collector=GarbageCollector(host, pods, ports, grace=settings.leak_grace),
        host_interfaces=host_interfaces,
        claims=claims,
        blocks=blocks,
        adoption=Adoption(host, ports, teardown, _delivery(settings)),
        name_ports=_name_ports(context, clients, dataplane, host),
        tunnel_probes=_tunnel_probes(settings, dataplane, mtus),
        guard_drops=GuardDrops(dataplane.agents),
    )


def _tunnel_probes(settings: Settings, dataplane: Dataplane, mtus: PodMtus) -> TunnelProbes:
    def answering(host: HostLabel) -> bool:
        record = dataplane.world.peers.record(host)
        return record is not None and record.answers_probes

    def report_faults(faults: Mapping[HostLabel, str]) -> None:
        told = (f"tunnel to {host}: {fault}" for host, fault in sorted(faults.items()))
        dataplane.progress.set_faults("tunnel probes", told)

    return TunnelProbes(
        own=settings.host,
        agent=dataplane.agents[Bridge.VXLAN],
        answering=answering,
        size=lambda: mtus.of(Bridge.VXLAN),
        port=settings.vxlan_port,
        echo=partial(icmp.passes, source=settings.vtep_ip),
        report_faults=report_faults,
    )


def _delivery(settings: Settings) -> Delivery:
    return Delivery.INSIDE if settings.docker is None else Delivery.HANDED_OVER


def _name_ports(
    context: Context, clients: Clients, dataplane: Dataplane, host: PodHost
) -> NamePorts:
    async def pod_socket(key: EndpointKey) -> socket.socket:
        entry = host.registry.get(key)
        if entry is None:
            raise HostError(f"endpoint {key} is not on this host any more")
        return await clients.links.pod_socket(entry.netns, RELAYED_DSCP)

    interfaces = InterfaceContext(
        ovsdb=clients.ovsdb,
        host_ports=clients.host_ports,
        world=dataplane.world,
        records=dataplane.records,
        interval=context.settings.audit_interval,
        show=dataplane.progress.set_faults,
        firewall_lost=clients.firewall_watch.lost,
        routing_lost=clients.route_watch.lost,
        underlay_changed=clients.underlay_routes.changed,
        settle_underlay=clients.underlay_routes.settle,
    )
    servers = {
        bridge: TcpServer(agent.directory.attachment, dataplane.names.resolve, pod_socket)
        for bridge, agent in dataplane.agents.items()
    }
    return NamePorts(
        interfaces,
        clients.links,
        servers,
        directory=context.settings.run_dir,
        tx_off=host.tx_off,
    )
