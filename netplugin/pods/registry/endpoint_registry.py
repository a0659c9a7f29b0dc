"""The endpoints of this host by their journal entries, and a lock for each container.

`netplugin.pods.handler` adds and removes entries, `netplugin.pods.pod_ports` and others read them.
Work on one container is serial, containers are independent. The registry lives in memory; the
journal (`netplugin.pods.registry.journal`) survives the agent.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from core.change_notifier import ChangeNotifier
from core.ids import EndpointKey
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry


class EndpointRegistry:
    """One per agent, shared by all that work on endpoints; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[EndpointKey, JournalEntry] = {}
        self._answered: dict[EndpointKey, float] = {}
        self._awaiting = ChangeNotifier()
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def put(self, entry: JournalEntry) -> None:
        """Add an endpoint, or replace its entry."""
        self._entries[entry.key] = entry
        if entry.source:
            self._awaiting.notify()

    def remove(self, key: EndpointKey) -> None:
        """Remove an endpoint. Raises KeyError."""
        del self._entries[key]
        self._answered.pop(key, None)

    def answered(self, key: EndpointKey) -> None:
        """Take note that an ADD of an endpoint is answered now, the first or a repeated one."""
        self._answered[key] = self._clock()

    def answered_within(self, key: EndpointKey, seconds: float) -> bool:
        """Return whether an ADD of an endpoint was answered by this agent less long ago."""
        at = self._answered.get(key)
        return at is not None and self._clock() - at < seconds

    def get(self, key: EndpointKey) -> JournalEntry | None:
        """Return an endpoint's entry, None if there is none."""
        return self._entries.get(key)

    def find(self, container_id: str, ifname: str) -> JournalEntry | None:
        """Return the endpoint behind an interface of a container, None if there is none."""
        for entry in self._entries.values():
            if (entry.spec.container_id, entry.spec.ifname) == (container_id, ifname):
                return entry
        return None

    def keys(self) -> frozenset[EndpointKey]:
        """Return the keys of all endpoints."""
        return frozenset(self._entries)

    def ports(self) -> set[int]:
        """Return the port numbers of all endpoints."""
        return {entry.port for entry in self._entries.values()}

    def entries(self) -> list[JournalEntry]:
        """Return all endpoints, also those that a call is working on."""
        return list(self._entries.values())

    def claiming(self) -> frozenset[EndpointKey]:
        """Return the endpoints that this host claims again from a store that went back."""
        return frozenset(
            entry.key
            for entry in self._entries.values()
            if entry.claiming and entry.state is EntryState.PRESENT
        )

    def idle(self) -> list[JournalEntry]:
        """Return the complete endpoints that no call is working on."""
        # Reconcile loops act on these only: a missing link or port of an endpoint in an ADD or DEL
        # is no fault, nor is one of a pod that awaits its machine, or is cut off.
        return [one for one in self.settled() if not one.source and not one.cut_off]

    def settled(self) -> list[JournalEntry]:
        """Return the pods that no call is working on, connected or not."""
        return [one for one in self._present() if one.spec.container_id not in self._locks]

    def awaiting(self) -> list[JournalEntry]:
        """Return the complete pods whose machines still run in other pods."""
        return [entry for entry in self._present() if entry.source]

    def cut_off(self) -> list[JournalEntry]:
        """Return the pods whose addresses other endpoints have."""
        return [entry for entry in self._present() if entry.cut_off]

    def awaiting_changed(self) -> asyncio.Event:
        """Return the event that the next pod sets which awaits its machine."""
        return self._awaiting.next

    def _present(self) -> Iterator[JournalEntry]:
        return (one for one in self._entries.values() if one.state is EntryState.PRESENT)

    @asynccontextmanager
    async def lock(self, container_id: str) -> AsyncIterator[None]:
        """Hold the container's lock for the body; holders follow in the order of their calls."""
        # The lock is the container's, not the endpoint's: a runtime may repeat an ADD with another
        # network, which replaces the endpoint. Locks are counted and dropped with their last user,
        # because containers come and go for as long as the agent runs.
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
