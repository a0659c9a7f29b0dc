"""Builds the services of this host's pods: ADD and DEL, ports, MTUs, teardown, garbage collection.

In come the clients, the data plane and the client of netmaster; out come services that have read
the journal. `netplugin.startup.resync` compares the journal with the host and runs them;
`netplugin.startup.servers` lets runtimes call them.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bridges.bridges import USERSPACE
from netplugin.masters.client import MasterApi
from netplugin.pods.add import PodAdd
from netplugin.pods.claims import Claims
from netplugin.pods.endpoint_registry import EndpointRegistry
from netplugin.pods.garbage_collection import GarbageCollector
from netplugin.pods.handler import Pods
from netplugin.pods.host import PodHost
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.teardown import Teardown
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane


@dataclass(frozen=True, slots=True, kw_only=True)
class PodServices:
    """The services of pods, and what they share."""

    host: PodHost
    pods: Pods
    mtus: PodMtus
    ports: PodPorts
    teardown: Teardown
    garbage_collector: GarbageCollector
    host_interfaces: HostInterfaces
    claims: Claims


async def build_pod_services(
    context: Context, clients: Clients, dataplane: Dataplane, master: MasterApi
) -> PodServices:
    """Read the links' MTUs and the journal, and return the services of pods, none running."""
    settings = context.settings
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
        registry=EndpointRegistry(),
        timing=context.timing.pods,
    )
    teardown = Teardown(host, context.supervisor)
    mtus = PodMtus(
        host,
        vtep_ip=settings.vtep_ip,
        uplinks=settings.uplinks,
        wanted=settings.mtu,
        report_faults=partial(dataplane.progress.show, "MTU"),
    )
    await mtus.read()
    ports = PodPorts(host, teardown)
    host_interfaces = HostInterfaces(host, ports, interval=settings.audit_interval)
    pods = Pods(host, PodAdd(host, mtus, ports, host_interfaces), ports, teardown)
    # The journal is taken over before any port number is handed out: numbers of endpoints that
    # were made, or half made, by the agent before this one must not be given again.
    pods.recover(await clients.journal.load())
    return PodServices(
        host=host,
        pods=pods,
        mtus=mtus,
        ports=ports,
        teardown=teardown,
        garbage_collector=GarbageCollector(host, pods, ports, grace=settings.leak_grace),
        host_interfaces=host_interfaces,
        claims=Claims(host, ports, partial(dataplane.progress.show, "claims")),
    )
