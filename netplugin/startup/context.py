"""What all steps of an agent's start share, and what each subsystem of an agent offers."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any, Protocol

from aiohttp import web

from core.metrics import Reading
from core.patience import patient
from core.retry import Loops, Pace, present_loops
from core.tasks import Supervisor
from daemons.certificates.tls import TlsContexts
from daemons.health import Check
from netplugin.bgp.host_bgp import BgpTiming
from netplugin.bridges.host import forward_check
from netplugin.bridges.vxlan import port_retries
from netplugin.pods.registry.pod_host import PodTiming
from netplugin.settings import AgentSettings

Task = Callable[[], Coroutine[Any, Any, None]]
"""What a subsystem runs for the life of the agent."""
Tasks = Mapping[str, Task]


class Subsystem(Protocol):
    """A part of an agent, built by one function and idle until its tasks run.

    It declares what it has; the root (`netplugin.startup.daemon`) asks all of them for it.
    """

    def tasks(self) -> Tasks:
        """Return what runs for the life of the agent once the switch has its flows, by name."""
        return {}

    def checks(self) -> Mapping[str, Check]:
        """Return what `/readyz` looks at, by name."""
        return {}

    def routes(self) -> Iterable[web.RouteDef]:
        """Return what it answers on the agent's port, beside `netplugin.startup.inspect`."""
        return ()

    async def readings(self) -> Iterable[Reading]:
        """Return its metrics of this moment."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTiming:
    """Time limits of an agent, in seconds."""

    ovsdb_wait: float = patient(30.0)
    """The OVSDB server must answer within this time, or the start fails."""
    ovsdb_lock_wait: float = patient(10.0)
    """Another agent on the same switch must have ended within this time, or the start fails."""
    kubernetes_wait: float = patient(5.0)
    """The start continues without the services of Kubernetes after this time."""
    switch_wait: float = 10.0
    """Pause between log messages while ovs-vswitchd has not connected."""
    tunnels: Pace = port_retries.PACE
    """Of attempts to add a tunnel port."""
    firewall_spacing: float = forward_check.SPACING
    """Between two readings of the rules of others, at least."""
    pods: PodTiming = field(default_factory=PodTiming)
    bgp: BgpTiming = field(default_factory=BgpTiming)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Settings of this run, the owner of its tasks, and the stack that undoes what it opened."""

    settings: AgentSettings
    version: str
    supervisor: Supervisor
    stack: AsyncExitStack
    service_subnet: IPv4Network | None = None
    """The subnet of Kubernetes services; None without Kubernetes."""
    timing: AgentTiming = field(default_factory=AgentTiming)
    tls: TlsContexts | None = None
    """None where REST and RPC are plain."""
    loops: Loops = field(default_factory=present_loops)

    def start(self, tasks: Tasks) -> None:
        """Run what a subsystem offers, by the names given."""
        for name, run in tasks.items():
            self.supervisor.supervise(name, run())
