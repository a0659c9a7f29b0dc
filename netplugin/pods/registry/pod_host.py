"""What all parts of the pods package share on one host: facts, clients and state.

`netplugin.startup.pod_services` builds it once; the classes of this package take it as their first
argument and pick what they use. It decides nothing and does nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from core.ids import HostLabel
from core.patience import patient
from netplugin.bridges.reconciler import Reconciler
from netplugin.cni.request import PodRequest
from netplugin.kernel.netns import KernelLinks
from netplugin.masters.master_api import MasterApi
from netplugin.masters.progress import Progress
from netplugin.ovsdb import Ovsdb
from netplugin.pods.registry.add_stages import AddStages
from netplugin.pods.registry.block_renewal import BlockRenewal
from netplugin.pods.registry.endpoint_registry import EndpointRegistry
from netplugin.pods.registry.journal import Journal
from netplugin.pods.registry.recent_adds import RecentAdds
from netplugin.world.builder import WorldBuilder

PlacePod = Callable[[PodRequest], Awaitable[PodRequest]]


async def place_as_asked(request: PodRequest) -> PodRequest:
    """Return a request as it is: what the runtime asks for counts."""
    return request


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTiming:
    """Time limits and pauses of the package, all in seconds."""

    network_known: float = patient(3.0)
    """An ADD waits so long for a network's record after netmaster named the network."""
    policies_known: float = patient(5.0)
    """An ADD waits so long for the records that netmaster had when it granted the endpoint."""
    old_gone: float = patient(4.0)
    """An ADD waits so long for the teardown of an earlier endpoint of the same pod."""
    flows_gone: float = patient(2.0)
    """A DEL waits so long for the switch to remove flows; an absent switch does it on return."""
    flows_checked: float = patient(2.0)
    """A CHECK waits so long for a comparison of the flows with the switch, if one is due."""
    undone: float = patient(2.0)
    """A failed ADD waits so long for its teardown, which continues afterwards."""
    release_wait: float = 1.0
    """A DEL waits so long for netmaster's release, which is retried afterwards."""
    yield_to_add: float = 1.0
    """The removal of an OVS port waits at most so long for ADDs in progress."""
    port_rescan: float = 0.2
    """Pause before a scan of all OVS ports: every ADD changes OVSDB, one scan covers many."""
    mtu_rescan: float = 1.0
    """Pause between scans of link MTUs: each pod that comes or goes changes the links."""
    link_rescan: float = 0.5
    """Pause between looks at the links of pods: each pod that comes or goes changes the links."""
    links_checked: float = 3.0
    """The links of pods are looked at so often without a change."""
    link_gone: float = 1.0
    """A pod's link must be missing so long: its namespace may end in the next moment."""
    collect_every: float = 10.0
    """Pause between garbage collections; shorter where the grace period is short."""
    collect_grace: float = 5.0
    """A GC leaves an interface alone whose ADD was answered so recently: its list is older."""
    revoked_grace: float = 5.0
    """A record must be absent so long: one that is recreated is absent for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """What does not change about this host while its agent runs."""

    label: HostLabel
    tx_off: bool
    """Pods compute their own checksums, which the userspace datapath demands."""
    service_subnet: IPv4Network | None
    """The subnet of Kubernetes services; None without Kubernetes."""
    timing: PodTiming = field(default_factory=PodTiming)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHost:
    """This host, as its pods need it."""

    settings: PodSettings
    master: MasterApi
    journal: Journal
    links: KernelLinks
    ovsdb: Ovsdb
    world: WorldBuilder
    reconciler: Reconciler
    registry: EndpointRegistry
    progress: Progress
    blocks: BlockRenewal
    """The addresses that this host holds ahead of its pods."""
    place: PlacePod = place_as_asked
    """Returns the request of an ADD as the orchestrator wants its pod placed."""
    stages: AddStages = field(default_factory=AddStages)
    adds: RecentAdds = field(default_factory=RecentAdds)
    leaving: Callable[[], None] = nothing
    """Called before an endpoint goes, while it still has its port."""
