"""Keeps the addresses that this host holds ahead of its pods in supply (ADR 29).

In come the endpoints of this host and netmaster's answers; `netplugin.pods.add` takes addresses.
What is free and until when is in `netplugin.masters.address_blocks`. A file beside the journal says
that this host may hold addresses: an agent that runs without blocks gives them back by it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.errors import ContivError, MasterUnavailable
from core.ids import HostLabel, NetworkId
from core.retry import REMOTE, Loop, retry
from netplugin.bridges.record_events import RecordEvents
from netplugin.masters.address_blocks import AddressBlocks, HeldAddress, InUse
from netplugin.masters.master_api import MasterApi
from netplugin.pods.registry.journal_entry import JournalEntry

log = logging.getLogger(__name__)

NO_MORE: Final = 5.0
"""Seconds until more is asked for, where netmaster gave nothing of what was wanted."""


def running_clock() -> float:
    """Return seconds of a clock that also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class BlockRenewal:
    """The address blocks of this host. One per agent; `size` 0 holds nothing.

    `entries` returns the journal entries of all endpoints here, those that are being removed too.
    """

    def __init__(
        self,
        label: HostLabel,
        master: MasterApi,
        *,
        size: int,
        marker: Path,
        records: RecordEvents,
        entries: Callable[[], Iterable[JournalEntry]],
        clock: Callable[[], float] = running_clock,
    ) -> None:
        self._label = label
        self._master = master
        self._size = size
        self._marker = marker
        self._records = records
        self._entries = entries
        self._clock = clock
        self._blocks = AddressBlocks(size, clock)
        self._seen_rewinds = records.rewinds
        self._wake = asyncio.Event()
        self._got_some = False
        self._renewing = Loop(log, "address blocks not renewed", patience=REMOTE)
        self._marking = Loop(
            log,
            "address blocks not noted on disk",
            errors=OSError,
            remedy="make room there, or mount it writable; no addresses are held meanwhile",
        )
        self._giving_back = Loop(
            log, "addresses not given back", errors=(ContivError, OSError), patience=REMOTE
        )

    @property
    def usable(self) -> bool:
        """Tell whether addresses that were given may still be used."""
        self._follow_store()
        return self._blocks.usable

    def give(self, network: NetworkId) -> HeldAddress | None:
        """Return addresses for a new pod; None if netmaster has to be asked."""
        if not self._size:
            return None
        self._follow_store()
        given = self._blocks.give(network)
        if self._blocks.low:
            self._wake.set()
        return given

    async def run(self) -> None:
        """Renew the lease and get addresses for ever; without blocks, give back what is held."""
        if not self._size:
            if self._marker.exists():
                await retry(self._giving_back, self._give_back)
            await asyncio.Event().wait()
        await retry(self._marking, self._mark)
        while True:
            await retry(self._renewing, self._renew)
            await self._until_due()

    async def _until_due(self) -> None:
        self._wake.clear()
        if self._blocks.low:
            if not self._got_some:  # the network is almost full, or the host drained
                await asyncio.sleep(min(NO_MORE, self._blocks.pause))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._blocks.pause):
                await self._wake.wait()

    async def _renew(self) -> bool:
        """Ask once, and once more if netmaster says that this host's last answer is another."""
        self._follow_store()
        self._blocks.want(one.spec.network_id for one in self._entries())
        for _ in range(2):
            # In this order: the lease counts from before the request, and what it names is all that
            # there is at this moment, with no other task in between.
            asked_at, rewinds = self._clock(), self._records.rewinds
            asked = self._blocks.request(self._in_use())
            answer = await self._master.renew_address_blocks(self._label, asked)
            if self._records.rewinds != rewinds:
                return False  # the answer may be of a history that is lost
            self._blocks.answered(asked_at, answer, self._in_use())
            self._got_some = bool(answer.granted)
            if answer.renewed:
                return True
        return False

    async def _give_back(self) -> None:
        if not await self._renew():
            raise MasterUnavailable("netmaster's answer was about another request: ask again")
        self._marker.unlink(missing_ok=True)

    def _in_use(self) -> Iterable[InUse]:
        for one in self._entries():
            yield one.spec.network_id, one.ip_address, one.ipv6_address

    def _follow_store(self) -> None:
        if (rewinds := self._records.rewinds) != self._seen_rewinds:
            self._seen_rewinds = rewinds
            self._blocks.store_went_back()
            self._wake.set()

    async def _mark(self) -> None:
        self._marker.touch()
