"""The endpoints of this host, by their journal entries, and whose turn it is to work on one.

`netplugin.pods.handler` makes and removes them, `netplugin.pods.pod_ports` keeps their ports; both
look here for what there is. Work on one container is serial, containers go side by side. Nothing
here does anything to an endpoint, and nothing survives the agent: that is the journal's business.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.ids import EndpointKey
from netplugin.pods.journal import EntryState, JournalEntry


class EndpointRegistry:
    """One per agent, shared by all that work on endpoints."""

    def __init__(self) -> None:
        self._entries: dict[EndpointKey, JournalEntry] = {}
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def put(self, entry: JournalEntry) -> None:
        """Add an endpoint, or say how far it has come."""
        self._entries[entry.key] = entry

    def drop(self, key: EndpointKey) -> None:
        """Forget an endpoint."""
        del self._entries[key]

    def get(self, key: EndpointKey) -> JournalEntry | None:
        """Return an endpoint's entry, None if there is none."""
        return self._entries.get(key)

    def find(self, container_id: str, ifname: str) -> JournalEntry | None:
        """Return the endpoint behind an interface of a container, None if there is none."""
        for entry in self._entries.values():
            if (entry.container_id, entry.ifname) == (container_id, ifname):
                return entry
        return None

    def keys(self) -> frozenset[EndpointKey]:
        """Return the keys of all endpoints."""
        return frozenset(self._entries)

    def ports(self) -> set[int]:
        """Return the numbers of their ports."""
        return {entry.port for entry in self._entries.values()}

    def entries(self) -> list[JournalEntry]:
        """Return all endpoints, also those somebody is at work on."""
        return list(self._entries.values())

    def settled(self) -> list[JournalEntry]:
        """Return the endpoints nobody is at work on."""
        return [
            entry
            for entry in self._entries.values()
            if entry.state is EntryState.PRESENT and entry.container_id not in self._locks
        ]

    @asynccontextmanager
    async def serial(self, container_id: str) -> AsyncIterator[None]:
        """Work on a container's endpoints when all who asked before have ended."""
        lock, users = self._locks.get(container_id, (asyncio.Lock(), 0))
        self._locks[container_id] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[container_id]
            if users == 1:
                del self._locks[container_id]
            else:
                self._locks[container_id] = lock, users - 1
