"""Tells in the log which addresses of hosts, masters and the store lie in networks.

A network that takes such an address is refused (`netmaster.plan.address_space`). A host or master
that registers later, or changes its address, is named here, and by `netctl host ls`.
"""

import asyncio
import logging
from typing import Final

from core.errors import ContivError, NotLeader
from core.logs import fields
from netmaster.commit import Committer
from netmaster.plan import address_space

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 60.0
"""Seconds after which networks and settings are looked at anew, also if no address changed."""


async def tell(committer: Committer) -> None:
    """Log each fault once, until this master no longer leads."""
    told: frozenset[str] = frozenset()
    while True:
        committer.underlay_changed.clear()
        try:
            found = await committer.read(address_space.faults)
        except NotLeader:
            return
        except ContivError as exc:
            log.warning("addresses of hosts not compared, retrying", extra=fields(error=exc))
        else:
            now = frozenset(text for texts in found.values() for text in texts)
            for text in sorted(now - told):
                log.warning("network takes an address that hosts need", extra=fields(error=text))
            told = now
        try:
            async with asyncio.timeout(LOOK_EVERY):
                await committer.underlay_changed.wait()
        except TimeoutError:
            continue
