"""Reads of consul, all consistent: a key, everything under a prefix, and both as they change.

A blocking query answers with the state once it has changed, or after a while; whatever happened
between two answers is seen as one change, and what was deleted is found by its absence. A prefix is
answered whole each time, so a watch asks the less often the more there is to read. A query that
fails is asked anew, of the next agent, from the beginning. (docs/notes/stores.md §2.3)
"""

import asyncio
import logging
import time
from binascii import a2b_base64
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from consul.base import Response
from consul.callback import CB
from consul.exceptions import ConsulException
from pydantic_core import from_json

from core.errors import StoreUnavailable
from core.logs import fields
from core.tasks import backoff
from objdb.api import Delta, Entry, Snapshot
from objdb.consul.agents import CONSISTENT, ConsulAgents, transaction
from objdb.consul.operations import Operation, bare
from objdb.failover import Missed

log = logging.getLogger(__name__)

LIST_ATTEMPT: Final = 8.0
WAIT: Final = 5.0
"""Seconds a query that brings nothing lasts, at least; the agent adds up to a sixteenth."""

LONGEST_WAIT: Final = 60.0
GRACE: Final = 2.0
"""Seconds behind the end of its wait after which an agent is left."""

RARELY: Final = 200
"""A watch whose answers take a second to read waits so many seconds for one that brings nothing."""

PACE: Final = 20
"""So many times as long as an answer took to decode a watch pauses before it asks again.

A change after a quiet moment is told at once; of a burst those that come within the pause are told
together.
"""

_PROBE: Final = "may-this-be-read"
_INDEX: Final = "X-Consul-Index"


@dataclass(frozen=True, slots=True)
class KeyListing:
    """What a query found, as consul has it, its index, and the CPU seconds that decoding took."""

    index: int
    items: Sequence[Any]
    cost: float


class Reading:
    """Reads keys of one cluster."""

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

    async def stream(self, prefix: str) -> AsyncIterator[Snapshot | Delta]:
        """Yield as `Backend.watch` promises."""
        known: dict[str, Entry] | None = None
        async for listing in self._listings(prefix, recurse=True):
            news = _snapshot(listing) if known is None else difference(known, listing)
            if isinstance(news, Snapshot):
                known = dict(news.entries)
            if news is not None:
                yield news

    async def states(self, key: str) -> AsyncGenerator[Any, None]:
        """Yield a key as consul has it, None if absent: now, and whenever it may have changed."""
        async for listing in self._listings(key, recurse=False):
            yield listing.items[0] if listing.items else None

    async def _listings(self, key: str, *, recurse: bool) -> AsyncGenerator[KeyListing, None]:
        """Yield what is there, now and after each change, until closed; outages are waited out."""
        agents = self._agents
        index, wait, failures = 0, WAIT, 0
        delays = backoff(0.02, 1.0)
        while not agents.closed:
            agent = agents.current
            query = partial(_listing, key=key, recurse=recurse, index=index, wait=wait)
            patience = wait * 17 / 16 + GRACE if index else LIST_ATTEMPT
            try:
                listing = await agent.asked(query, patience)
            except (Missed, StoreUnavailable) as exc:
                level = logging.DEBUG if failures else logging.WARNING
                failures += 1
                log.log(level, "store away, waiting", extra=fields(key=key, error=str(exc)))
                agents.rotate(agent)
                index = 0
                await asyncio.sleep(next(delays))
                continue
            failures, delays = 0, backoff(0.02, 1.0)
            # one that went back would have us wait until it is reached again
            index = listing.index if listing.index >= index else 0
            yield listing
            wait = min(max(WAIT, RARELY * listing.cost), LONGEST_WAIT)
            await asyncio.sleep(PACE * listing.cost)


def entry(item: Any) -> Entry:
    """Return a key as consul has it as an entry."""
    return Entry(f"/{item['Key']}", a2b_base64(item["Value"] or ""), item["ModifyIndex"])


def difference(known: dict[str, Entry], listing: KeyListing) -> Snapshot | Delta | None:
    """Return what a listing has that is not known, which it is then; None if it has no news.

    Revisions that went back are those of a store that has lost its data: a Snapshot.
    """
    found = {f"/{item['Key']}": item for item in listing.items}
    puts = [
        entry(item)
        for key, item in found.items()
        if key not in known or known[key].rev != item["ModifyIndex"]
    ]
    if any(put.key in known and put.rev < known[put.key].rev for put in puts):
        return _snapshot(listing)
    gone = [key for key in known if key not in found]
    known.update((put.key, put) for put in puts)
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
        await _demand_right(client, key + _PROBE)
    return listing


async def _read(client: Any, *, key: str) -> Entry | None:
    # not by path: there is none for keys with dots or several slashes between their slashes
    answer = await transaction(client, [Operation("get", key).json()], consistent=True)
    if answer["Results"]:
        return entry(answer["Results"][0]["KV"])
    await _demand_right(client, key)
    return None


async def _demand_right(client: Any, key: str) -> None:
    """Raise StoreDenied unless the key may be read.

    What a token may not read is left out of answers without a word, and would be taken for absent;
    a check is refused for it. What the check finds does not matter.
    """
    check = Operation("check-session", key, session="none").json()
    await transaction(client, [check], consistent=True)


def _decoded(response: Any) -> KeyListing:
    began = time.thread_time()  # of a busy machine it would count the others' as well
    there = response.code == HTTPStatus.OK
    if not there:
        text = response.body.decode(errors="replace")
        CB.boolean()(Response(response.code, response.headers, text))  # accepts a key that is not
    try:
        # as fast as the agent says it: the library's own takes four times as long
        items = from_json(response.body) if there else ()
        index = int(response.headers[_INDEX])
    except (ValueError, KeyError) as exc:
        raise ConsulException(f"not an answer of consul: {exc!r}") from exc
    return KeyListing(index, items or (), time.thread_time() - began)
