"""Has an agent start part by part, and run (ADR 17: start-up is the recovery path).

The order is docs/original/netplugin-agent.md §2; each step has a module.

1. `netplugin.startup.clients` opens store, OVSDB and kernel, `netplugin.startup.cluster_settings`
waits for netmaster. 2. `netplugin.startup.dataplane` makes the bridges and wires what forwards,
`netplugin.startup.host_services` the host's own ports, `netplugin.startup.pod_services` what looks
after pods, from the journal. 3. The host's record is written, for others to make their tunnels;
Kubernetes' services are read. 4. `netplugin.startup.resync` reads the store's records. When all of
this has been read the World is complete, and only then may anything be deleted. 5.
`netplugin.startup.servers` comes last: an agent that answers is one that works.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from contivmodel.client import MasterClient
from core.logs import fields
from core.tasks import Supervisor, supervisor
from netplugin.bridges import node_ports
from netplugin.bridges.node_ports import NodePorts
from netplugin.kernel.iptables import Iptables
from netplugin.kube import config
from netplugin.kube.api import KubeApi
from netplugin.kube.config import KubeConfig
from netplugin.kube.feed import KubeFeed
from netplugin.masters import registration
from netplugin.masters.client import LeaderClient
from netplugin.settings import Settings
from netplugin.startup.clients import Clients, open_doors
from netplugin.startup.cluster_settings import cluster_settings
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane, open_plane, uplink_macs
from netplugin.startup.host_services import wire_own_ports
from netplugin.startup.pod_services import open_caretakers
from netplugin.startup.resync import settle
from netplugin.startup.servers import serve
from ofnet.openflow import packets
from ofnet.world import FwdMode

log = logging.getLogger(__name__)

KUBERNETES_WAIT: Final = 5.0


async def run(settings: Settings, version: str) -> None:
    """Run the agent until SIGTERM or SIGINT. Flows and ports stay when it ends."""
    async with supervisor(signals=True) as sup:
        sup.supervise("agent", _agent(settings, version, sup))
        await sup.wait()


async def _agent(settings: Settings, version: str, sup: Supervisor) -> None:
    async with AsyncExitStack() as stack:
        kubernetes = config.load(settings.k8s_config) if settings.k8s_config else KubeConfig()
        followed = KubeApi(kubernetes) if kubernetes.server else None
        log.info("agent starts", extra=fields(host=settings.host, address=settings.ctrl_ip))
        life = Context(
            settings=settings,
            version=version,
            sup=sup,
            stack=stack,
            services=kubernetes.services,
        )
        await _start(life, followed)
        await asyncio.Event().wait()


async def _start(life: Context, kubernetes: KubeApi | None) -> None:
    settings = life.settings
    doors = await open_doors(life)
    macs = await uplink_macs(doors, settings.uplinks)
    cluster = await cluster_settings(doors.store, settings)
    plane = await open_plane(life, doors, FwdMode(cluster.fwd_mode), macs)
    masters = _follow_masters(life, doors)
    own = wire_own_ports(life, doors, plane, masters)
    care = await open_caretakers(life, doors, plane, masters)
    record = registration.host_record(settings, macs.values(), life.version)
    await registration.put_host_record(doors.store, record)
    node_ports = await _follow_kubernetes(life, plane, kubernetes) if kubernetes else None
    await settle(life, doors, plane, own, care)
    if node_ports is not None:
        life.sup.supervise("node ports", node_ports.run())
    life.sup.supervise("leaks", care.leaks.run())
    is_known = partial(plane.world.peers.knows, settings.host)
    kept = registration.keep_host_record(doors.store, record, is_known)
    life.sup.supervise("host record", kept)
    await serve(life, doors, plane, own, care)
    log.info("agent ready", extra=fields(host=settings.host, count=len(care.pods.keys())))
    await asyncio.to_thread(packets.load)


def _follow_masters(life: Context, doors: Clients) -> LeaderClient:
    client = MasterClient()
    life.stack.push_async_callback(client.close)
    masters = LeaderClient(doors.store, client)
    life.sup.supervise("masters", masters.follow())
    return masters


async def _follow_kubernetes(life: Context, plane: Dataplane, api: KubeApi) -> NodePorts:
    """Follow the services of Kubernetes, and have them read before what is missing is gone.

    An API server that is away is not waited for long: pods are more than services. Node ports can
    be kept once this host's pods are known.
    """
    feed = KubeFeed(api, plane.world)
    life.sup.supervise("services of kubernetes", feed.run())
    if not await feed.listed(KUBERNETES_WAIT):
        log.warning("kubernetes has not told of its services: there are none until it does")
    return NodePorts(
        feed=feed,
        iptables=Iptables(node_ports.CHAINS),
        world=plane.world,
        reconciler=plane.reconciler,
        interval=life.settings.audit_interval,
    )
