"""Builds the services of this host's pods: ADD and DEL, ports, MTUs, teardown, garbage collection.

In come the clients, the data plane and the client of netmaster; out come services that have read
the journal. `netplugin.startup.resync` compares the journal with the host;
`netplugin.startup.servers` lets runtimes call them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.metrics import Reading, labelled
from daemons.health import Check
from netplugin.bridges.bridges import USERSPACE
from netplugin.cni.interface_spec import Delivery
from netplugin.cni.server import CniHandlers
from netplugin.masters.master_api import MasterApi
from netplugin.pods.add import PodAdd
from netplugin.pods.adoption import Adoption
from netplugin.pods.check import PodCheck
from netplugin.pods.claims import Claims
from netplugin.pods.collect import PodCollect
from netplugin.pods.garbage_collection import GarbageCollector
from netplugin.pods.handler import Pods
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.host_port_mappings import mapping_rules
from netplugin.pods.host_port_mappings.port_mappings import MappingTools, PortMappings
from netplugin.pods.link_keeper import LinkKeeper
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.readiness import NOTHING, Readiness
from netplugin.pods.registry.block_renewal import BlockRenewal
from netplugin.pods.registry.endpoint_registry import EndpointRegistry
from netplugin.pods.registry.pod_host import PlacePod, PodHost, PodSettings, place_as_asked
from netplugin.pods.teardown import Teardown
from netplugin.settings import AgentSettings
from netplugin.startup import metric_names as names
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Subsystem, Tasks
from netplugin.startup.dataplane import Dataplane
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class PodServices(Subsystem):
    """The services of pods, and what they share (`host`); `calls` serves runtimes."""

    host: PodHost
    pods: Pods
    check: PodCheck
    readiness: Readiness
    mtus: PodMtus
    ports: PodPorts
    link_keeper: LinkKeeper
    mappings: PortMappings
    garbage_collector: GarbageCollector
    host_interfaces: HostInterfaces
    claims: Claims
    adoption: Adoption

    @property
    def calls(self) -> CniHandlers:
        """What carries out the calls of runtimes."""
        collect = PodCollect(self.host.registry, self.pods, self.host.settings.timing.collect_grace)
        return CniHandlers(self.pods, self.check, collect, self.readiness)

    def tasks(self) -> Tasks:
        """Return what keeps pods connected, and their addresses this host's."""
        return {
            "endpoint ports": self.ports.run,
            "links of pods": self.link_keeper.run,
            "host ports": self.mappings.run,
            "claims": self.claims.run,
            "address blocks": self.host.blocks.run,
            "MTU": self.mtus.run,
            "interfaces to the host": self.host_interfaces.run,
            "garbage collection": self.garbage_collector.run,
        }

    def checks(self) -> Mapping[str, Check]:
        """Return what an ADD needs."""
        return self.readiness.checks()

    async def readings(self) -> Iterable[Reading]:
        """Return how ADDs went, what was collected, and the MTUs."""
        return [
            Reading(names.STAGES, self.host.stages.seconds.copy()),
            labelled(names.COLLECTED, self.garbage_collector.tally),
            labelled(names.POD_MTU, {str(bridge): self.mtus.of(bridge) for bridge in Bridge}),
        ]


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
        records=dataplane.records,
        entries=lambda: (*registry.entries(), *teardown.entries()),
    )
    host = PodHost(
        settings=PodSettings(
            label=settings.host,
            tx_off=dataplane.bridges.datapath == USERSPACE,
            service_subnet=context.service_subnet,
            timing=context.timing.pods,
        ),
        master=master,
        journal=clients.journal,
        links=clients.links,
        ovsdb=clients.ovsdb,
        world=dataplane.world,
        reconciler=dataplane.reconciler,
        registry=registry,
        progress=dataplane.progress,
        blocks=blocks,
        place=place,
        leaving=dataplane.look_at_pods,
    )
    teardown = Teardown(host, context.supervisor)
    mtus = PodMtus(
        host,
        vtep_ips=settings.vtep_ips,
        uplinks=settings.uplinks,
        wanted=settings.mtu,
    )
    await mtus.read()
    ports = PodPorts(host, teardown)
    host_interfaces = HostInterfaces(host, ports, interval=settings.audit_interval)
    mappings = PortMappings(
        host,
        MappingTools(
            iptables=clients.tools.iptables(mapping_rules.CHAINS),
            chains=clients.tools.chains(mapping_rules.PREFIX),
            datagrams=clients.datagrams,
            in_use=clients.tools.port_in_use,
            route_localnet=clients.tools.route_localnet,
            address=settings.tunnel_source,
            firewall=clients.watches.firewall,
        ),
        interval=settings.audit_interval,
    )
    pod_add = PodAdd(host, mtus, ports, host_interfaces, mappings)
    claims = Claims(host, ports)
    pods = Pods(host, pod_add, ports, teardown, mappings, claims=claims)
    # The journal is taken over before any port number is handed out: numbers of endpoints that
    # were made, or half made, by the agent before this one must not be given again.
    pods.recover(await clients.journal.load())
    readiness = Readiness(clients.store, master, clients.ovsdb, dataplane.agents, further=needed)
    return PodServices(
        host=host,
        pods=pods,
        check=PodCheck(host, mtus, ports, mappings),
        readiness=readiness,
        mtus=mtus,
        ports=ports,
        link_keeper=LinkKeeper(host),
        mappings=mappings,
        garbage_collector=GarbageCollector(host, pods, ports, grace=settings.leak_grace),
        host_interfaces=host_interfaces,
        claims=claims,
        adoption=Adoption(host, ports, teardown, _delivery(settings)),
    )


def _delivery(settings: AgentSettings) -> Delivery:
    return Delivery.INSIDE if settings.docker is None else Delivery.HANDED_OVER
