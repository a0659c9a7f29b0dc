"""Docker in small: holds networks by name, and remembers what it was asked."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import Conflict
from netmaster.external.docker import DockerFailed

OTHERS = "others"
"""The id of a network of another driver."""


@dataclass
class FakeDocker:
    """`held` are the ids of networks by name; while `failing`, nothing is done."""

    held: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    failing: bool = False
    last_call: int | None = None
    """How many calls it answers before it fails; None for any number."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """While cleared, a network that is made already is not answered for."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.gate.set()

    async def create(self, name: str, wanted: Mapping[str, Any]) -> str:
        """Hold a network, or fail."""
        self._hear("create", name)
        if self.held.get(name) == OTHERS:
            raise Conflict("network name used by another driver")
        if name not in self.held:
            self.held[name], self.bodies[name] = f"id{next(self._numbers)}", wanted
        self.arrived.set()
        await self.gate.wait()
        return self.held[name]

    async def delete(self, name: str) -> None:
        """Forget a network, or fail."""
        self._hear("delete", name)
        if self.held.get(name) != OTHERS:
            self.held.pop(name, None)

    def _hear(self, what: str, name: str) -> None:
        if len(self.calls) == self.last_call:
            raise DockerFailed("Docker is gone")
        self.calls.append((what, name))
        if self.failing:
            raise DockerFailed("Cannot connect to the Docker daemon")
