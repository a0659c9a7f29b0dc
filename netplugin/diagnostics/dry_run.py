"""POST /dry-run: how many flows this host would gain and lose by records that are not written.

In come records by their keys in the store, with null for one that would be removed; out goes, for
each bridge, what `netplugin.world.flow_changes` finds. netmaster asks all hosts for a dry run
(`netmaster.api.leader.flow_effects`). Changes nothing.
"""

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import Invalid
from core.logs import fields
from core.outside_json import read_json
from netplugin.diagnostics.limits import KnownMasters, forbidden
from netplugin.world.builder import WorldBuilder
from netplugin.world.flow_changes import flow_changes
from state import intents
from state.intents import Fact
from state.watch import RecordFeed

PATH: Final = "/dry-run"
LONGEST: Final = 16 << 20
"""Bytes of a question that are read."""

log = logging.getLogger(__name__)


class DryRuns:
    """Answers masters for this host, one question at a time."""

    # An answer costs up to a second of processor time, so that not everybody may ask.

    def __init__(
        self,
        world: WorldBuilder,
        feed: RecordFeed,
        masters: KnownMasters,
    ) -> None:
        self._world = world
        self._feed = feed
        self._masters = masters
        self._turn = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        """Return the route."""
        return [web.post(PATH, self._answer)]

    async def report(self, writes: Mapping[str, Fact | None]) -> dict[str, dict[str, int]]:
        """Return `added`, `removed` and `replaced` flows by bridge."""
        async with self._turn:
            # All flows of two Worlds are computed, beside the event loop: with 10 000 endpoints it
            # takes half a second.
            own, records = self._world.twin(), dict(self._feed.records)
            found = await asyncio.to_thread(flow_changes, own, records, writes)
        return {
            str(bridge): {
                "added": one.added,
                "removed": one.removed,
                "replaced": one.replaced,
            }
            for bridge, one in found.items()
        }

    async def _answer(self, request: web.Request) -> web.Response:
        if not await self._masters.asked_by_master(request):
            log.warning("dry run refused", extra=fields(peer=request.remote, path=request.path))
            return forbidden(
                "what a change would do is told to netmaster alone: use netctl --what-if"
            )
        try:
            writes = read(await _body(request))
        except Invalid as exc:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{exc}\n")
        return web.Response(body=dumps(await self.report(writes)), content_type="application/json")


def read(body: bytes) -> dict[str, Fact | None]:
    """Return the records of a question by their keys. Raises Invalid.

    A record that cannot be read is left out, as the one in force stays when such a one is written.
    """
    try:
        asked: Any = read_json(body)
        texts = {str(key): text for key, text in asked["writes"].items()}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as exc:
        raise Invalid("the body is no JSON object with writes") from exc
    found: dict[str, Fact | None] = {}
    for key, text in texts.items():
        if text is None:
            found[key] = None
            continue
        try:
            fact = intents.decode(key, str(text).encode())
        except Invalid as exc:
            log.debug("record left out", extra=fields(key=key, error=exc))
            continue
        if fact is not None:
            found[key] = fact
    return found


async def _body(request: web.Request) -> bytes:
    body = bytearray()
    async for part in request.content.iter_any():
        body += part
        if len(body) > LONGEST:
            raise Invalid(f"the body is longer than {LONGEST} bytes")
    return bytes(body)
