"""What all parts of an agent's start share (no decisions)."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import IPv4Network

from core.tasks import Supervisor
from netplugin.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the agent runs with: its settings, the owner of its tasks, and what its end undoes."""

    settings: Settings
    version: str
    sup: Supervisor
    stack: AsyncExitStack
    services: IPv4Network | None = None
    """The subnet of Kubernetes' services."""
