"""Linearizable reads of consul: one key, everything under a prefix, and watches of both.

A watch is a series of blocking queries (docs/notes/stores.md §2.3): each returns the whole
state once it has changed, or after the wait time.
"""

import asyncio
import logging
import time
from binascii import a2b_base64
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from consul.base import Response
from consul.callback import CB
from consul.exceptions import ConsulException
from pydantic_core import from_json

from core.errors import StoreUnavailable
from core.patience import patient
from core.retry import REMOTE, STORE, Loop
from objdb.api import Delta, Entry, Parts, Snapshot, under
from objdb.consul.agents import CONSISTENT, ConsulAgents, UnknownToken, transaction
from objdb.consul.operations import Operation, bare
from objdb.failover import NoAnswer

log = logging.getLogger(__name__)

# Consul has no history and no delete events. So a watch compares each listing with the last one:
# a key that is missing was deleted, and all changes between two answers are one delta. That is why
# `objdb.api` promises states only, not every event.
#
# Each change of one key returns the whole prefix. So the cost grows with the prefix, and two limits
# keep it bounded: a pause after each answer (CPU_PAUSE_FACTOR) and longer waits for large
# prefixes (IDLE_WAIT_FACTOR). ADR 5 has the figures.
#
# After a failure the query starts again without an index, at another agent. Its answer is the state
# now, and the comparison with the last listing finds what changed meanwhile.

LIST_ATTEMPT: Final = patient(8.0)
WAIT: Final = 5.0
"""Minimum wait time of a query in seconds; the agent adds up to a sixteenth."""

LONGEST_WAIT: Final = 60.0
GRACE: Final = 2.0
"""Seconds after the end of its wait time at which an agent counts as failed."""

IDLE_WAIT_FACTOR: Final = 200
"""Wait time of a query without changes, as a multiple of the time to decode its answer."""

CPU_PAUSE_FACTOR: Final = 20
"""Pause after an answer, as a multiple of the time to decode it.

A change after a quiet period is delivered at once. Of a burst, the changes within one pause are
delivered together.
"""

_PROBE: Final = "may-this-be-read"
_INDEX: Final = "X-Consul-Index"


@dataclass(frozen=True, slots=True)
class KeyListing:
    """The answer to a query: its index, consul's items, and the CPU seconds to decode it."""

    index: int
    items: Sequence[Any]
    cost: float


class ConsulReader:
    """Reads and watches keys of one cluster."""

    def __init__(self, agents: ConsulAgents) -> None:
        self._agents = agents

    async def get(self, key: str) -> Entry | None:
        """Return the key as of now; None if absent."""
        return await self._agents.call(partial(_read, key=key))

    async def snapshot(self, prefix: str) -> Snapshot:
        """Return everything under a prefix."""
        listing = await self._agents.call(
            partial(_listing, key=prefix, recurse=True), attempt=LIST_ATTEMPT
        )
        return _snapshot(listing)

    async def stream(
        self, prefix: str, parts: Parts | None = None
    ) -> AsyncIterator[Snapshot | Delta]:
        """Yield the items of `Backend.watch`."""
        known: dict[str, int] | None = None
        index = 0
        async for listing in self._listings(prefix, recurse=True):
            item = _snapshot(listing) if known is None else update(known, listing, index)
            index = listing.index
            del listing
            if isinstance(item, Snapshot):
                known = {key: found.rev for key, found in item.entries.items()}
                item = under(item, parts)
            if item is not None:
                # Megabytes: a name that still had it would keep it until the next one.
                handed = [item]
                del item
                yield handed.pop()

    async def states(self, key: str) -> AsyncGenerator[Any, None]:
        """Yield consul's item of a key, None if absent: now, and whenever it may have changed."""
        async for listing in self._listings(key, recurse=False):
            yield listing.items[0] if listing.items else None

    async def _listings(self, key: str, *, recurse: bool) -> AsyncGenerator[KeyListing, None]:
        """Yield the state, now and after each change, until closed; continues after outages."""
        loop = Loop(log, "store unavailable", about=key, pace=STORE, patience=REMOTE, vital=True)
        agents = self._agents
        index, wait = 0, WAIT
        try:
            while not agents.closed:
                agent = agents.current
                query = partial(_listing, key=key, recurse=recurse, index=index, wait=wait)
                timeout = wait * 17 / 16 + GRACE if index else LIST_ATTEMPT
                try:
                    listing = await agent.call(query, timeout)
                except (NoAnswer, StoreUnavailable) as exc:
                    pause = loop.failed(exc)
                    agents.rotate(agent)
                    index = 0
                    if isinstance(exc, UnknownToken) and not agents.token_known:
                        with suppress(StoreUnavailable):
                            await self.get(key)  # StoreDenied, unless the token becomes known
                    await asyncio.sleep(pause)
                    continue
                loop.works()
                # After a restore from a backup the index is lower than before. A query with the old
                # index would block until the new one reaches it.
                index = listing.index if listing.index >= index else 0
                cost, handed = listing.cost, [listing]
                del listing  # as in `stream`
                yield handed.pop()
                wait = min(max(WAIT, IDLE_WAIT_FACTOR * cost), LONGEST_WAIT)
                await asyncio.sleep(CPU_PAUSE_FACTOR * cost)
        finally:
            loop.withdraw()


def entry(item: Any) -> Entry:
    """Convert consul's item of a key."""
    return Entry(f"/{item['Key']}", a2b_base64(item["Value"] or ""), item["ModifyIndex"])


def update(known: dict[str, int], listing: KeyListing, index: int) -> Snapshot | Delta | None:
    """Update the known revisions, as of an index, from a listing; return what changed, or None.

    Returns a rewound Snapshot, without an update of `known`, for a store that went back.
    """
    found = {f"/{item['Key']}": item for item in listing.items}
    puts = [entry(item) for key, item in found.items() if known.get(key) != item["ModifyIndex"]]
    gone = [key for key in known if key not in found]
    # An index that went back proves nothing: consul forgets deletes after a while, and then the
    # index of a prefix is that of its last put.
    if any(put.rev <= index for put in puts) or (gone and listing.index < index):
        return replace(_snapshot(listing), rewound=True)
    known.update((put.key, put.rev) for put in puts)
    for key in gone:
        del known[key]
    return Delta(listing.index, tuple(puts), tuple(gone)) if puts or gone else None


def _snapshot(listing: KeyListing) -> Snapshot:
    entries = map(entry, listing.items)
    return Snapshot(listing.index, {found.key: found for found in entries})


async def _listing(
    client: Any, *, key: str, recurse: bool, index: int = 0, wait: float = 0.0
) -> KeyListing:
    params = [CONSISTENT]
    if recurse:
        params.append(("recurse", "1"))
    if index:
        params += [("index", str(index)), ("wait", f"{wait:.0f}s")]
    listing: KeyListing = await client.http.get(
        _decoded, f"/v1/kv/{bare(key)}", params=params, raw=True
    )
    if recurse:
        await _require_read_permission(client, key + _PROBE)
    return listing


async def _read(client: Any, *, key: str) -> Entry | None:
    # By a transaction, since the path of a URL cannot hold all keys: HTTP clients and servers
    # normalize "." and ".." segments and empty segments.
    answer = await transaction(client, [Operation("get", key).json()], consistent=True)
    if answer["Results"]:
        return entry(answer["Results"][0]["KV"])
    await _require_read_permission(client, key)
    return None


async def _require_read_permission(client: Any, key: str) -> None:
    """Raise StoreDenied unless the token may read the key."""
    # Consul silently omits keys that a token may not read, so a missing permission looks like
    # deleted keys. A `check-session` operation is refused instead; its result does not matter.
    check = Operation("check-session", key, session="none").json()
    await transaction(client, [check], consistent=True)


def _decoded(response: Any) -> KeyListing:
    began = time.thread_time()  # wall time would include other processes
    found = response.code == HTTPStatus.OK
    if not found:
        text = response.body.decode(errors="replace")
        CB.boolean()(
            Response(response.code, response.headers, text)
        )  # raises, except for an absent key
    try:
        # pydantic's parser: the library's own decoding takes four times as long.
        items = from_json(response.body, cache_strings="keys") if found else ()
        index = int(response.headers[_INDEX])
    except (ValueError, KeyError) as exc:
        raise ConsulException(f"not an answer of consul: {exc!r}") from exc
    return KeyListing(index, items or (), time.thread_time() - began)
