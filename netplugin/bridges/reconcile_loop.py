"""Repeats an idempotent piece of work, so that one part of the host stays as it should be.

In come what does the work, what it depends on, and events that tell of changes; the work is done
anew after every change, after failures, and on an interval, for changes that raise no event. Used
by `netplugin.bridges.host_access`, `netplugin.bridges.infra`, `netplugin.bridges.service_access`,
`netplugin.pods.host_interfaces` and `netplugin.bgp.host`; `set_on_change` serves loops of other
shapes too. Nothing here knows what the work is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import ContivError
from core.logs import fields
from core.tasks import backoff

log = logging.getLogger(__name__)

MAX_BACKOFF: Final = 10.0
"""Seconds between attempts of work that keeps failing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileLoop:
    """One piece of work: its name in the log, the work, what it depends on, and its triggers.

    `observe` returns the inputs and results of the work as they are now; `converge` returns them as
    it left them. Each trigger returns an event that the next change sets.
    """

    name: str
    converge: Callable[[], Awaitable[object]]
    observe: Callable[[], object]
    triggers: Sequence[Callable[[], asyncio.Event]]
    interval: float

    async def run(self) -> None:
        """Repeat the work, for ever; failures are logged and retried."""
        due = asyncio.Event()
        async with asyncio.TaskGroup() as triggers:
            for changed in self.triggers:
                triggers.create_task(set_on_change(changed, due))
            await self._converge_forever(due)

    async def _converge_forever(self, due: asyncio.Event) -> None:
        waits = backoff(limit=MAX_BACKOFF)
        while True:
            try:
                converged = await self.converge()
            except ContivError as exc:
                log.warning("%s not in sync, retrying", self.name, extra=fields(error=exc))
                await asyncio.sleep(next(waits))
                continue
            waits = backoff(limit=MAX_BACKOFF)
            try:
                async with asyncio.timeout(self.interval):
                    # Compared with what `converge` saw, not with what is there now: a change in the
                    # middle of the work would be taken for its result otherwise. The work's own
                    # changes raise events as well, and they compare equal.
                    while self.observe() == converged:
                        due.clear()
                        await due.wait()
            except TimeoutError:
                continue


async def set_on_change(changed: Callable[[], asyncio.Event], due: asyncio.Event) -> None:
    """Set `due` at once and then after every change, for ever.

    `changed` returns an event that the next change sets. It is taken before `due` is set, so that a
    change while the work is under way sets `due` again.
    """
    while True:
        event = changed()
        due.set()
        await event.wait()
