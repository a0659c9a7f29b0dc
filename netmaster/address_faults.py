"""Tells in the log which addresses of hosts, masters and the store lie in networks.

A network that takes such an address is refused (`netmaster.plan.address_space`). A host or master
that registers later, or changes its address, is named here, and by `netctl host ls`.
"""

import logging
from contextlib import suppress
from functools import partial
from typing import Final

from core.change_notifier import each_change
from core.errors import NotLeader
from core.logs import fields
from core.retry import REMOTE, Loop, retry
from netmaster.commits.commit import Committer
from netmaster.plan import address_space

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 60.0
"""Seconds after which networks and settings are looked at anew, also if no address changed."""


async def tell(committer: Committer) -> None:
    """Log each fault once, until this master no longer leads."""
    told: frozenset[str] = frozenset()
    loop = Loop(log, "addresses of hosts not compared", ends=NotLeader, patience=REMOTE)
    compare = partial(committer.read, address_space.faults)
    with suppress(NotLeader):
        async for _ in each_change(lambda: committer.underlay_changed, LOOK_EVERY):
            committer.underlay_changed.clear()
            found = await retry(loop, compare)
            now = frozenset(text for texts in found.values() for text in texts)
            for text in sorted(now - told):
                log.warning("network takes an address that hosts need", extra=fields(error=text))
            told = now
