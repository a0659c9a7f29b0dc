"""Starts an agent step by step and runs it (ADR 17: start-up is the recovery path).

The order is docs/original/netplugin-agent.md §2; each step has a module.

1. `netplugin.startup.clients` keeps this host's own addresses from routes to pods
   (`netplugin.bridges.host.underlay_routes`), and connects to store, OVSDB and kernel. From then on
   `netplugin.startup.early_health` says what the agent waits for.
2. `netplugin.masters.cluster_settings` waits for netmaster; the host record is written, so that
   peers create their tunnels (`netplugin.masters.label_claim`), unless no link has its addresses.
3. `netplugin.startup.dataplane`, `netplugin.startup.host_services` and
   `netplugin.startup.pod_services` ensure the bridges, build the parts and read the journal.
4. `netplugin.startup.kubernetes` reads what Kubernetes said last, and follows it.
5. `netplugin.startup.resync` reads the store's records, finds existing ports and programs the
   switch. Then the loops of all subsystems start (`netplugin.startup.agent`).
6. `netplugin.startup.servers` opens CNI, REST and RPC: an agent that answers is one that works.
   In the modes of docker `netplugin.startup.docker` serves the engine in the place of CNI; its
   socket opens before the first step.
"""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from core.errors import HostError
from core.logs import fields
from core.retry import begin_loops
from core.service_manager import READY, STOPPING, feed_watchdog, notify
from core.tasks import Supervisor, supervisor
from daemons import metrics_page
from daemons.certificates.tls import contexts_of
from daemons.memory import reclaim_regularly
from daemons.program import load_ahead
from netplugin.kernel.writable_settings import make_writable
from netplugin.kube import config
from netplugin.kube.config import KubeConfig
from netplugin.kube.discovery import access_of, api_hosts
from netplugin.masters.cluster_settings import cluster_settings
from netplugin.masters.host_id import flow_key
from netplugin.masters.own_record import OwnRecord
from netplugin.pods.registry.pod_host import place_as_asked
from netplugin.settings import AgentSettings
from netplugin.startup.agent import Agent
from netplugin.startup.clients import Clients, connect_clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane, build_dataplane, start_switches, uplink_macs
from netplugin.startup.early_health import EarlyHealth
from netplugin.startup.host_checks import build_host_checks
from netplugin.startup.host_services import build_host_services
from netplugin.startup.kubernetes import (
    FollowedKubernetes,
    build_feed,
    build_kubernetes,
    follow_kubernetes,
)
from netplugin.startup.membership import claim_host, join_cluster
from netplugin.startup.pod_services import PodServices, build_pod_services
from netplugin.startup.resync import resync
from netplugin.startup.servers import start_servers
from netplugin.startup.tunnel_health import build_tunnel_health
from ofnet import digests
from ofnet.openflow import packets
from ofnet.world import FwdMode
from state.watch_scope import WatchScope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


async def run(settings: AgentSettings, version: str) -> None:
    """Run the agent until SIGTERM or SIGINT. Flows and ports stay when it ends."""
    begin_loops()
    # The stack is the outer one: tasks end before what they use is closed. A task that finds a
    # closed server or client fails of that, and would hide why the agent ends.
    async with AsyncExitStack() as stack, supervisor(signals=True) as sup:
        sup.supervise("watchdog", feed_watchdog())
        sup.supervise("memory", reclaim_regularly())
        sup.supervise("agent", _agent(settings, version, sup, stack))
        await sup.wait()
        notify(STOPPING)


async def _agent(
    settings: AgentSettings, version: str, sup: Supervisor, stack: AsyncExitStack
) -> None:
    kube_config = config.load(settings.k8s_config) if settings.k8s_config else KubeConfig()
    log.info("agent starts", extra=fields(host=settings.host, address=settings.ctrl_ip))
    try:
        make_writable()
    except HostError as exc:  # what needs a setting says so, too
        log.warning("kernel settings stay read-only: %s", exc)
    context = Context(
        settings=settings,
        version=version,
        supervisor=sup,
        stack=stack,
        service_subnet=kube_config.services,
        tls=contexts_of(settings.tls),
    )
    await _start(context, kube_config)
    await asyncio.Event().wait()


async def _start(context: Context, kube_config: KubeConfig) -> None:
    settings = context.settings
    start_docker: Callable[[Dataplane, PodServices], Awaitable[None]] | None = None
    if settings.docker is not None:
        # Imported here: hosts of other modes need no client of docker, nor the home that it reads.
        from netplugin.startup.docker import open_plugin  # noqa: PLC0415 - see above

        # First of all: an engine that starts beside this agent waits for the driver, not for long.
        start_docker = await open_plugin(context, settings.docker)
    clients = await connect_clients(context, api_hosts(kube_config, os.environ))
    early = EarlyHealth(context)
    await early.start()
    early.step = "waiting for netmaster's settings in the store"
    macs = await uplink_macs(clients, settings.uplinks)
    cluster = await cluster_settings(clients.store, settings)
    # Before anything on this host is changed; and before the resync, so that peers create their
    # tunnels to this host meanwhile.
    own = await claim_host(context, clients, macs)
    # Before the first flow is made, and with every start the same.
    digests.use_key(flow_key(settings.host_id_file))
    early.step = "waiting for Open vSwitch"
    switches, fwd_mode = await start_switches(context), FwdMode(cluster.fwd_mode)
    in_kubernetes = settings.k8s_config is not None
    # A node of Kubernetes reaches every pod, and its services and policies know no tenants.
    a_node = in_kubernetes and access_of(kube_config, os.environ) is not None
    scope = WatchScope(settings.host) if settings.own_tenants_only and not a_node else None
    dataplane = await build_dataplane(context, clients, switches, fwd_mode, macs, scope=scope)
    followed = build_feed(context, dataplane, kube_config) if in_kubernetes else None
    agent = await _build(context, clients, dataplane, own, followed)
    early.step = "reading services and pods from Kubernetes"
    # Kubernetes precedes the resync too: a service that is not known when the World is complete
    # is gone, and its flows are deleted.
    await follow_kubernetes(context, agent.dataplane, followed)
    early.step = "programming the switch"
    await resync(context, clients, agent.dataplane, agent.host_services, agent.pod_services)
    for subsystem in agent:
        context.start(subsystem.tasks())
    # This removes what the journal does not know, and by now the journal has been read and
    # compared with OVSDB.
    await agent.pod_services.adoption.sweep()
    await start_servers(context, agent, early)
    if start_docker is not None:
        await start_docker(agent.dataplane, agent.pod_services)
    count = len(agent.pod_services.host.registry.keys())
    # Last: from now on requests of pods come to this agent.
    context.supervisor.supervise("name service", agent.host_services.name_ports.run())
    log.info("agent ready", extra=fields(host=settings.host, count=count))
    notify(READY)
    context.supervisor.spawn("imports", load_ahead(packets.load, metrics_page.load))


async def _build(
    context: Context,
    clients: Clients,
    dataplane: Dataplane,
    own: OwnRecord,
    followed: FollowedKubernetes | None,
) -> Agent:
    """Read the journal and return the subsystems; the leader alone is followed already."""
    membership = join_cluster(context, clients, dataplane, own)
    host_health = build_host_checks(context, clients, dataplane, membership.leader)
    pod_services = await build_pod_services(
        context,
        clients,
        dataplane,
        membership.master,
        followed.placement.place if followed is not None else place_as_asked,
        needed=host_health.checks(),
    )
    host, kubernetes = pod_services.host, None
    if followed is not None:
        kubernetes = build_kubernetes(context, clients, dataplane, pod_services, followed)
    return Agent(
        clients=clients,
        dataplane=dataplane,
        membership=membership,
        host_health=host_health,
        pod_services=pod_services,
        host_services=build_host_services(context, clients, dataplane, host),
        tunnels=build_tunnel_health(context, clients, dataplane, pod_services.mtus),
        kubernetes=kubernetes,
    )
