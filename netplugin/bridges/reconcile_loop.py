"""Keeping something of the host as it should be, whoever changes it.

In come what makes it so (idempotent), what can be seen of it, and who brings news; `keep` does the
work anew after every change, after failures, and on an interval for what nobody reports. Used by
`netplugin.bridges.host_access`, `netplugin.pods.host_interfaces` and `netplugin.bridges.infra`, and
its `follow` by `netplugin.pods.pod_ports`; it knows nothing of what is kept.
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

LONGEST_PAUSE: Final = 10.0
"""Seconds between tries of what goes on failing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileLoop:
    """What is kept: its name in the log, how it is made so, what shows that it has changed.

    `converge` returns the `facts` as it left them; each of `news` returns an event that the next
    change sets.
    """

    name: str
    converge: Callable[[], Awaitable[object]]
    facts: Callable[[], object]
    news: Sequence[Callable[[], asyncio.Event]]
    interval: float


async def keep(upkeep: ReconcileLoop) -> None:
    """Keep it, for ever; failures are logged and tried again."""
    look = asyncio.Event()
    async with asyncio.TaskGroup() as following:
        for news in upkeep.news:
            following.create_task(follow(news, look))
        await _keep(upkeep, look)


async def follow(news: Callable[[], asyncio.Event], look: asyncio.Event) -> None:
    """Set `look` at once and then after every change that `news` tells of, for ever."""
    while True:
        changed = news()
        look.set()
        await changed.wait()


async def _keep(upkeep: ReconcileLoop, look: asyncio.Event) -> None:
    waits = backoff(limit=LONGEST_PAUSE)
    while True:
        try:
            left = await upkeep.converge()
        except ContivError as exc:
            log.warning("%s not in step", upkeep.name, extra=fields(error=exc))
            await asyncio.sleep(next(waits))
            continue
        waits = backoff(limit=LONGEST_PAUSE)
        try:
            async with asyncio.timeout(upkeep.interval):
                while upkeep.facts() == left:
                    look.clear()
                    await look.wait()
        except TimeoutError:
            continue
