"""Builds what follows Kubernetes: services, policies, and the places of pods.

In come the access to the API servers (`netplugin.kube.discovery`) and the data plane; out comes a
feed that knows what an earlier agent had saved. Without a server in sight all stays as it was
saved.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from core.metrics import Reading, labelled
from daemons.health import Check
from netplugin.bridges.services import service_access
from netplugin.bridges.services.health_checks import HealthChecks
from netplugin.bridges.services.service_access import HostRules, ServiceAccess
from netplugin.kernel.firewall.iptables_chains import PREFIX
from netplugin.kube.api import KubeApi
from netplugin.kube.cache import KubeCache
from netplugin.kube.config import KubeConfig
from netplugin.kube.discovery import access_of
from netplugin.kube.feed import FanOut, KubeFeed
from netplugin.kube.pods import PodHandler, PodPlacement
from netplugin.kube.policy_kinds import PolicyKinds
from netplugin.kube.policy_peers import PeerHandler
from netplugin.kube.resources import NAMESPACES, NODES, POLICIES, SERVICES, SLICES, pods_of
from netplugin.kube.services import ServiceHandler
from netplugin.pods.labels import PodLabels
from netplugin.pods.live_migrations import LiveMigrations
from netplugin.settings import KubeProxy, TenantLabels
from netplugin.startup import metric_names as names
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Subsystem, Tasks
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.pod_services import PodServices
from netplugin.world.builder import WorldBuilder

log = logging.getLogger(__name__)

SEEN_ON_SWITCHES: Final = (SERVICES, SLICES, NAMESPACES, NODES, *POLICIES)
"""The resources that flows follow from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedKubernetes:
    """What this agent follows of Kubernetes; one per agent in a cluster of Kubernetes."""

    feed: KubeFeed
    kinds: PolicyKinds
    pods: PodHandler
    placement: PodPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes(Subsystem):
    """What acts on the services and pods of Kubernetes."""

    feed: KubeFeed
    access: ServiceAccess
    labels: PodLabels
    live_migrations: LiveMigrations

    def tasks(self) -> Tasks:
        """Return what keeps the rules of services, and labels, and what follows machines."""
        return {
            "rules of services": self.access.run,
            "labels of pods": self.labels.run,
            "live migrations": self.live_migrations.run,
        }

    def checks(self) -> Mapping[str, Check]:
        """Return whether the API is followed."""
        return {"kubernetes": self.feed.ready}

    async def readings(self) -> Iterable[Reading]:
        """Return what is known of each resource, and since when nothing was heard."""
        resources = self.feed.report()["resources"].items()
        ages = {name: one["lastEventSeconds"] for name, one in resources}
        known = {name: age for name, age in ages.items() if age is not None}
        faulty = {name: float(bool(one["fault"])) for name, one in resources}
        return [
            labelled(names.KUBE_OBJECTS, {name: one["objects"] for name, one in resources}),
            labelled(names.KUBE_LISTED, {name: float(one["listed"]) for name, one in resources}),
            labelled(names.KUBE_SILENT, known),
            labelled(names.KUBE_FAULTY, faulty),
        ]


def build_feed(
    context: Context,
    dataplane: Dataplane,
    config: KubeConfig,
    environ: Mapping[str, str] = os.environ,
) -> FollowedKubernetes | None:
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
    kinds = PolicyKinds(api, feed)
    return FollowedKubernetes(feed=feed, kinds=kinds, pods=pods, placement=placement)


async def follow_kubernetes(
    context: Context, dataplane: Dataplane, followed: FollowedKubernetes | None
) -> None:
    """Follow the servers; return when the services are known, or after a while.

    Pods need their network also while the API server is away.
    """
    if followed is None:
        return
    feed, policies = followed.feed, dataplane.world.pod_policies.policies
    dataplane.names.follow(lambda: feed.knows(SERVICES, SLICES))
    await feed.restore()
    context.supervisor.supervise("kubernetes", feed.run())
    context.supervisor.supervise(
        "faults of kubernetes",
        feed.report_faults(
            partial(dataplane.progress.set_faults, "Kubernetes"),
            lambda: (*followed.kinds.faults, *policies.unfollowed()),
        ),
    )
    context.supervisor.supervise("policy kinds of kubernetes", followed.kinds.run())
    if not await feed.listed(context.timing.kubernetes_wait, *SEEN_ON_SWITCHES):
        log.warning("Kubernetes API not answering; starting without its services")
        dataplane.world.set_kubernetes_partial(partial=True)
        context.supervisor.spawn("services of kubernetes", _complete_late(feed, dataplane.world))


async def _complete_late(feed: KubeFeed, world: WorldBuilder) -> None:
    """Let absence of a service mean gone, once they have been listed."""
    await feed.until_known(*SEEN_ON_SWITCHES)
    world.set_kubernetes_partial(partial=False)


def build_kubernetes(
    context: Context,
    clients: Clients,
    dataplane: Dataplane,
    pod_services: PodServices,
    followed: FollowedKubernetes,
) -> Kubernetes:
    """Return what acts on services and pods; it runs after the resync, which finds the pods."""
    interval = context.settings.audit_interval
    access = ServiceAccess(
        feed=followed.feed,
        host_rules=HostRules(
            iptables=clients.tools.iptables(service_access.CHAINS),
            chains=clients.tools.chains(PREFIX),
            health=HealthChecks(),
            datagrams=clients.datagrams,
            route_localnet=clients.tools.route_localnet,
        ),
        world=dataplane.world,
        reconciler=dataplane.reconciler,
        address=context.settings.tunnel_source,
        own=(context.settings.ctrl_ip, *context.settings.vtep_ips),
        interval=interval,
        replace=context.settings.kube_proxy is KubeProxy.REPLACE,
        board=dataplane.progress,
        firewall=clients.watches.firewall,
    )
    host = pod_services.host
    return Kubernetes(
        feed=followed.feed,
        access=access,
        labels=PodLabels(host, followed.pods, interval),
        live_migrations=LiveMigrations(host, pod_services.pods, followed.pods, interval),
    )
