"""What all steps of an agent's start share."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any

from core.patience import patient
from core.retry import Loops, present_loops
from core.tasks import Supervisor
from daemons.tls import TlsContexts
from netplugin.bgp.host import BgpTiming
from netplugin.pods.host import PodTiming
from netplugin.settings import Settings

Task = Callable[[], Coroutine[Any, Any, None]]
"""What a subsystem runs for the life of the agent."""
Tasks = Mapping[str, Task]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Time limits of an agent, in seconds."""

    ovsdb_wait: float = patient(30.0)
    """The OVSDB server must answer within this time, or the start fails."""
    ovsdb_lock_wait: float = patient(10.0)
    """Another agent on the same switch must have ended within this time, or the start fails."""
    kubernetes_wait: float = patient(5.0)
    """The start continues without the services of Kubernetes after this time."""
    switch_wait: float = 10.0
    """Pause between log messages while ovs-vswitchd has not connected."""
    pods: PodTiming = field(default_factory=PodTiming)
    bgp: BgpTiming = field(default_factory=BgpTiming)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Settings of this run, the owner of its tasks, and the stack that undoes what it opened."""

    settings: Settings
    version: str
    supervisor: Supervisor
    stack: AsyncExitStack
    service_subnet: IPv4Network | None = None
    """The subnet of Kubernetes services; None without Kubernetes."""
    timing: Timing = field(default_factory=Timing)
    tls: TlsContexts | None = None
    """None where REST and RPC are plain."""
    loops: Loops = field(default_factory=present_loops)

    def start(self, tasks: Tasks) -> None:
        """Run what a subsystem offers, by the names given."""
        for name, run in tasks.items():
            self.supervisor.supervise(name, run())
