"""The subsystems of one agent, together: what they run, look at and count.

`netplugin.startup.daemon` builds them in order. A further subsystem is a field here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from core.metrics import Reading
from daemons.health import Check
from netplugin.startup.clients import Clients
from netplugin.startup.context import Subsystem
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.host_checks import HostHealth
from netplugin.startup.host_services import HostServices
from netplugin.startup.kubernetes import Kubernetes
from netplugin.startup.membership import ClusterMembership
from netplugin.startup.pod_services import PodServices
from netplugin.startup.tunnel_health import TunnelHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The subsystems; without Kubernetes there is none for it."""

    clients: Clients
    dataplane: Dataplane
    membership: ClusterMembership
    host_health: HostHealth
    pod_services: PodServices
    host_services: HostServices
    tunnels: TunnelHealth
    kubernetes: Kubernetes | None

    def __iter__(self) -> Iterator[Subsystem]:
        found = (getattr(self, one.name) for one in fields(self))
        return (one for one in found if one is not None)

    def checks(self) -> Mapping[str, Check]:
        """Return what `/readyz` looks at."""
        return {name: check for one in self for name, check in one.checks().items()}

    async def readings(self) -> Iterable[Reading]:
        """Return the metrics of this moment."""
        return [reading for one in self for reading in await one.readings()]
