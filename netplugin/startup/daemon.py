"""Starts an agent step by step and runs it (ADR 17: start-up is the recovery path).

The order is docs/original/netplugin-agent.md §2; each step has a module.

1. `netplugin.startup.clients` connects to store, OVSDB and kernel.
2. `netplugin.startup.cluster_settings` waits for netmaster; the host record is written, so that
   peers create their tunnels (`netplugin.masters.label_claim`).
3. `netplugin.startup.dataplane`, `netplugin.startup.host_services` and
   `netplugin.startup.pod_services` ensure the bridges, build the parts and read the journal.
4. Kubernetes services are read.
5. `netplugin.startup.resync` reads the store's records, finds existing ports, programs the switch
   and starts the reconcile loops.
6. `netplugin.startup.servers` opens CNI, REST and RPC: an agent that answers is one that works.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial

from contivmodel.client import MasterClient
from core.logs import fields
from core.tasks import Supervisor, supervisor
from daemons.tls import contexts_of
from netplugin.bridges import node_ports
from netplugin.bridges.node_ports import NodePorts
from netplugin.kube import config
from netplugin.kube.api import KubeApi
from netplugin.kube.config import KubeConfig
from netplugin.kube.feed import KubeFeed
from netplugin.masters import registration
from netplugin.masters.client import LeaderClient
from netplugin.masters.host_id import host_id
from netplugin.masters.label_claim import claim_label, keep_label
from netplugin.settings import Settings
from netplugin.startup.clients import Clients, connect_clients
from netplugin.startup.cluster_settings import cluster_settings
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane, build_dataplane, start_switches, uplink_macs
from netplugin.startup.host_services import build_host_services
from netplugin.startup.pod_services import build_pod_services
from netplugin.startup.resync import resync
from netplugin.startup.servers import start_servers
from ofnet.openflow import packets
from ofnet.world import FwdMode

log = logging.getLogger(__name__)


async def run(settings: Settings, version: str) -> None:
    """Run the agent until SIGTERM or SIGINT. Flows and ports stay when it ends."""
    async with supervisor(signals=True) as sup:
        sup.supervise("agent", _agent(settings, version, sup))
        await sup.wait()


async def _agent(settings: Settings, version: str, sup: Supervisor) -> None:
    async with AsyncExitStack() as stack:
        kube_config = config.load(settings.k8s_config) if settings.k8s_config else KubeConfig()
        kube_api = KubeApi(kube_config) if kube_config.server else None
        log.info("agent starts", extra=fields(host=settings.host, address=settings.ctrl_ip))
        context = Context(
            settings=settings,
            version=version,
            supervisor=sup,
            stack=stack,
            service_subnet=kube_config.services,
            tls=contexts_of(settings.tls),
        )
        await _start(context, kube_api)
        await asyncio.Event().wait()


async def _start(context: Context, kube_api: KubeApi | None) -> None:
    settings = context.settings
    clients = await connect_clients(context)
    macs = await uplink_macs(clients, settings.uplinks)
    cluster = await cluster_settings(clients.store, settings)
    # Before anything on this host is changed; and before the resync, so that peers create their
    # tunnels to this host meanwhile.
    own_id = host_id(settings.host_id_file)
    record = registration.host_record(settings, macs.values(), context.version, own_id)
    await claim_label(clients.store, record, takeover=settings.takeover_label)
    switches = await start_switches(context)
    dataplane = await build_dataplane(context, clients, switches, FwdMode(cluster.fwd_mode), macs)
    master = _follow_leader(context, clients)
    host_services = build_host_services(context, clients, dataplane, master)
    pod_services = await build_pod_services(context, clients, dataplane, master)
    # Kubernetes precedes the resync too: a service that is not known when the World is complete
    # is gone, and its flows are deleted.
    node_ports = await _follow_kubernetes(context, clients, dataplane, kube_api)
    await resync(context, clients, dataplane, host_services, pod_services)
    if node_ports is not None:
        context.supervisor.supervise("node ports", node_ports.run())
    context.supervisor.supervise("garbage collection", pod_services.garbage_collector.run())
    stored = partial(dataplane.world.peers.record, settings.host)
    context.supervisor.supervise("host record", keep_label(clients.store, record, stored))
    await start_servers(context, clients, dataplane, host_services, pod_services)
    count = len(pod_services.pods.keys())
    log.info("agent ready", extra=fields(host=settings.host, count=count))
    await asyncio.to_thread(packets.load)


def _follow_leader(context: Context, clients: Clients) -> LeaderClient:
    http = MasterClient(ssl=context.tls.to_masters if context.tls else None)
    context.stack.push_async_callback(http.close)
    leader = LeaderClient(clients.store, http)
    context.supervisor.supervise("netmaster leader", leader.follow())
    return leader


async def _follow_kubernetes(
    context: Context, clients: Clients, dataplane: Dataplane, api: KubeApi | None
) -> NodePorts | None:
    """Follow the services of Kubernetes; return the keeper of node ports, to be run after a resync.

    Waits for the first list, but not for long: pods need their network also while the API server
    is away. Node ports need this host's pods, which the resync finds.
    """
    if api is None:
        return None
    feed = KubeFeed(api, dataplane.world)
    context.supervisor.supervise("services of kubernetes", feed.run())
    if not await feed.listed(context.timing.kubernetes_wait):
        log.warning("Kubernetes API not answering; starting without its services")
    return NodePorts(
        feed=feed,
        iptables=clients.iptables(node_ports.CHAINS),
        world=dataplane.world,
        reconciler=dataplane.reconciler,
        interval=context.settings.audit_interval,
    )
