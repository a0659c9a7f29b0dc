"""Sends the announcements of one bridge when they are due.

`ofnet.agent` tells of changed Worlds (`note`) and of the end of their realisation (`wake`); what is
announced is `ofnet.announcements`' decision. Nothing is sent before the switch has its flows, so
that who answers reaches the pod.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ofnet.announcements import Announcements
from ofnet.changes import Changes
from ofnet.channel.switch import Switch
from ofnet.packetin import PacketOut
from ofnet.world import Bridge, World

PERIOD: Final = 3.0
"""Seconds between rounds."""


class GarpSender:
    """The announcements of one bridge; `ready` returns when the switch has its flows."""

    def __init__(
        self,
        switch: Switch,
        bridge: Bridge,
        world: World,
        stats: Counter[str],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._switch = switch
        self._stats = stats
        self._ready = ready
        self._book = Announcements(bridge, world)
        self._came = asyncio.Event()
        self._armed = asyncio.Event()

    def note(self, world: World, changes: Changes) -> None:
        """Take over a changed World."""
        self._book.update(world, changes)

    def wake(self) -> None:
        """Send what is due, as soon as the switch has its flows."""
        self._came.set()
        if self._book.rounds_left:
            self._armed.set()

    async def run(self, *, period: float = PERIOD) -> None:
        """Send announcements, for ever."""
        async with asyncio.TaskGroup() as sending:
            sending.create_task(self._at_once())
            sending.create_task(self._in_rounds(period))

    async def _at_once(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            await self._ready()
            self._send(self._book.once())

    async def _in_rounds(self, period: float) -> None:
        while True:
            await self._armed.wait()
            await self._ready()
            sent = self._book.next_round()
            self._stats["GARPSent"] += len(sent)
            self._send(sent)
            if not self._book.rounds_left:
                self._armed.clear()
            await asyncio.sleep(period)

    def _send(self, frames: Sequence[PacketOut]) -> None:
        for frame in frames:
            self._stats["GarpPktSent"] += 1
            self._switch.send_packet(frame.data, frame.actions, in_port=frame.in_port)
