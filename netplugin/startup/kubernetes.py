"""Builds what follows Kubernetes: services, policies, and the places of pods.

In come the access to the API servers (`netplugin.kube.discovery`) and the data plane; out comes a
feed that knows what an earlier agent had saved. Without a server in sight all stays as it was
saved.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from netplugin.bridges import service_access
from netplugin.bridges.health_checks import HealthChecks
from netplugin.bridges.service_access import HostRules, ServiceAccess
from netplugin.kernel.iptables_chains import PREFIX
from netplugin.kube.api import KubeApi
from netplugin.kube.cache import KubeCache
from netplugin.kube.config import KubeConfig
from netplugin.kube.discovery import access_of
from netplugin.kube.feed import KubeFeed
from netplugin.kube.pods import PodHandler, PodPlacement
from netplugin.kube.policies import FanOut, PeerHandler
from netplugin.kube.policy_kinds import PolicyKinds
from netplugin.kube.resources import NAMESPACES, NODES, POLICIES, SERVICES, SLICES, pods_of
from netplugin.kube.services import ServiceHandler
from netplugin.pods.host import PodHost
from netplugin.pods.labels import PodLabels
from netplugin.settings import KubeProxy, TenantLabels
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane
from netplugin.world.builder import WorldBuilder

log = logging.getLogger(__name__)

SEEN_ON_SWITCHES: Final = (SERVICES, SLICES, NAMESPACES, NODES, *POLICIES)
"""The resources that flows follow from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """What this agent knows of Kubernetes; one per agent in a cluster of Kubernetes."""

    feed: KubeFeed
    kinds: PolicyKinds
    pods: PodHandler
    placement: PodPlacement


def build_kubernetes(
    context: Context,
    dataplane: Dataplane,
    config: KubeConfig,
    environ: Mapping[str, str] = os.environ,
) -> Kubernetes | None:
    """Return the feed, not running yet; None where no API server is named."""
    access = access_of(config, environ)
    if access is None:
        return None
    api = KubeApi(access)
    node = config.node_name(environ)
    services, pods = ServiceHandler(dataplane.world, node), PodHandler()
    pod_policies = dataplane.world.pod_policies
    peers = PeerHandler(pod_policies)
    own_pods = pods_of(node)
    feed = KubeFeed(
        api,
        KubeCache(context.settings.kube_cache),
        # A further resource is a line here, and one in `netplugin.kube.resources`.
        {
            SERVICES: services,
            SLICES: services,
            own_pods: pods,
            NAMESPACES: FanOut((pods, peers)),
            NODES: FanOut((peers, services)),
            **dict.fromkeys(POLICIES, pod_policies),
        },
    )
    by_pod = context.settings.tenant_labels is TenantLabels.PODS
    placement = PodPlacement(api, own_pods, pods, tenant_by_pod=by_pod)
    kinds = PolicyKinds(api, feed.notify)
    return Kubernetes(feed=feed, kinds=kinds, pods=pods, placement=placement)


async def follow_kubernetes(
    context: Context, dataplane: Dataplane, kubernetes: Kubernetes | None
) -> None:
    """Follow the servers; return when the services are known, or after a while.

    Pods need their network also while the API server is away.
    """
    if kubernetes is None:
        return
    feed, policies = kubernetes.feed, dataplane.world.pod_policies.policies
    dataplane.names.follow(lambda: feed.knows(SERVICES, SLICES))
    await feed.restore()
    context.supervisor.supervise("kubernetes", feed.run())
    context.supervisor.supervise(
        "faults of kubernetes",
        feed.report_faults(
            partial(dataplane.progress.set_faults, "Kubernetes"),
            lambda: (*kubernetes.kinds.faults, *policies.unfollowed()),
        ),
    )
    context.supervisor.supervise("policy kinds of kubernetes", kubernetes.kinds.run())
    if not await feed.listed(context.timing.kubernetes_wait, *SEEN_ON_SWITCHES):
        log.warning("Kubernetes API not answering; starting without its services")
        dataplane.world.set_kubernetes_partial(partial=True)
        context.supervisor.spawn("services of kubernetes", _complete_late(feed, dataplane.world))


async def _complete_late(feed: KubeFeed, world: WorldBuilder) -> None:
    """Let absence of a service mean gone, once they have been listed."""
    await feed.until_known(*SEEN_ON_SWITCHES)
    world.set_kubernetes_partial(partial=False)


def start_kubernetes_loops(
    context: Context,
    clients: Clients,
    dataplane: Dataplane,
    kubernetes: Kubernetes | None,
    host: PodHost,
) -> None:
    """Start what acts on services and pods; after the resync, which finds this host's pods."""
    if kubernetes is None:
        return
    interval = context.settings.audit_interval
    access = ServiceAccess(
        feed=kubernetes.feed,
        host_rules=HostRules(
            iptables=clients.iptables(service_access.CHAINS),
            chains=clients.chains(PREFIX),
            health=HealthChecks(),
            datagrams=dataplane.datagrams,
            route_localnet=clients.route_localnet,
        ),
        world=dataplane.world,
        reconciler=dataplane.reconciler,
        address=context.settings.vtep_ip,
        interval=interval,
        replace=context.settings.kube_proxy is KubeProxy.REPLACE,
        show=dataplane.progress.set_faults,
        firewall_lost=clients.firewall_watch.lost,
    )
    labels = PodLabels(host, kubernetes.pods, interval)
    context.supervisor.supervise("rules of services", access.run())
    context.supervisor.supervise("labels of pods", labels.run())
