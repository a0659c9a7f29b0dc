"""Exports records of flows: when they end, and each minute while they go on.

In come records from `netplugin.flow_records.ring`; out go batches to sinks
(`netplugin.flow_records.sinks`). What a sink does not take is lost for it, and counted.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from core.retry import REMOTE, Loop
from netplugin.flow_records.ipfix import Portion
from netplugin.flow_records.ring import Ring
from netplugin.flow_records.sinks import Sink
from state.flow_records import FlowRecord

log = logging.getLogger(__name__)

INTERVAL: Final = 5.0
"""Seconds between two batches."""

GOES_ON: Final = 60.0
"""Seconds after which a record that goes on is told again."""

WAITING: Final = 20_000
"""Records that have ended and wait for the next batch, at most."""

Counts = tuple[int, int, int, int]
_NOTHING: Final[Counts] = (0, 0, 0, 0)


class FlowExporter:
    """Takes what ends from a ring; `sinks` are by what users call them. One per agent."""

    def __init__(
        self,
        ring: Ring,
        sinks: Mapping[str, Sink],
        *,
        interval: float = INTERVAL,
        goes_on: float = GOES_ON,
        waiting: int = WAITING,
    ) -> None:
        self._ring = ring
        self._sinks = sinks
        self._interval = interval
        self._goes_on = goes_on
        self._waiting = waiting
        self._ended: deque[FlowRecord] = deque()
        self._told: dict[int, tuple[float, Counts]] = {}
        """When records that go on were told, and what they had counted."""
        self._loops = {
            name: Loop(log, "flow records not exported", about=name, patience=REMOTE)
            for name in sinks
        }
        self.sent: Counter[str] = Counter(dict.fromkeys(sinks, 0))
        """Records that were sent, by sink; one that goes on counts each time."""
        self.lost: Counter[str] = Counter(dict.fromkeys(sinks, 0))
        """Records that a sink did not take, by sink."""
        ring.on_end = self._note

    async def run(self) -> None:
        """Export, for ever."""
        try:
            while True:
                await asyncio.sleep(self._interval)
                await self.export(asyncio.get_running_loop().time())
        finally:
            for name, sink in self._sinks.items():
                self._loops[name].withdraw()
                sink.close()

    async def export(self, now: float) -> None:
        """Send what has ended, and what goes on for long; `now` is by any clock that goes on."""
        batch = [*self._take_ended(), *self._take_open(now)]
        if batch:
            await asyncio.gather(*(self._send(name, batch) for name in self._sinks))

    async def _send(self, name: str, batch: list[Portion]) -> None:
        try:
            await self._sinks[name].send(batch)
        except OSError as exc:
            self.lost[name] += len(batch)
            self._loops[name].failed(exc)
        else:
            self.sent[name] += len(batch)
            self._loops[name].succeeded()

    def _note(self, record: FlowRecord) -> None:
        if len(self._ended) >= self._waiting:
            self._ended.popleft()
            for name in self._sinks:
                self.lost[name] += 1
        self._ended.append(record)

    def _take_ended(self) -> list[Portion]:
        taken = []
        while self._ended:
            record = self._ended.popleft()
            _, before = self._told.pop(record.number, (0.0, _NOTHING))
            taken.append(_since(record, before))
        return taken

    def _take_open(self, now: float) -> list[Portion]:
        """Return what has counted more since it was told, or first seen, a minute ago."""
        taken = []
        told, self._told = self._told, {}
        for record in self._ring.open():
            at, before = told.get(record.number, (now, _NOTHING))
            if now - at >= self._goes_on and _counts(record) != before:
                taken.append(_since(record, before))
                at, before = now, _counts(record)
            self._told[record.number] = at, before
        return taken


def _counts(record: FlowRecord) -> Counts:
    return record.packets, record.bytes, record.answer_packets, record.answer_bytes


def _since(record: FlowRecord, before: Counts) -> Portion:
    return Portion(record, *(now - was for now, was in zip(_counts(record), before, strict=True)))
