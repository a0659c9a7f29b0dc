"""Sends the gratuitous ARPs (GARPs) of one bridge when they are due.

In come changed Worlds (`update`) and the end of their realisation (`wake`), both from
`ofnet.agent`; out go frames to `ofnet.channel.switch`. `ofnet.packets.announcements` decides which.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from core.errors import SwitchUnavailable
from core.ids import EndpointKey
from core.patience import patient
from ofnet.changes import Changes
from ofnet.channel.switch import Switch
from ofnet.packets.announcements import Announcements, NewEndpoints
from ofnet.packets.packetin import PacketOut
from ofnet.world import Bridge, World

PERIOD: Final = 3.0
"""Seconds between two rounds."""

REPEAT: Final = 0.4
"""Seconds between two announcements of a new endpoint."""

PATIENCE: Final = patient(1.0)
"""Seconds that an ADD may wait for its announcement."""


class Synced(Protocol):
    """What keeps the flows of a switch (`ofnet.flow_sync`)."""

    async def wait_synced(self) -> None:
        """Return when the switch has its flows."""


class GarpSender:
    """The announcements of one bridge, once the switch has its flows (`sync`)."""

    # Nothing is announced before the switch is in sync: an announcement draws traffic to this host
    # at once, and the flows that deliver it to the pod must be there first.
    #
    # An announcement may be lost and nothing acknowledges it, so new endpoints are announced some
    # times, and groups in rounds. One loop paces the rounds of all groups. The original starts
    # another loop with each call (`vlanBridge.go: InjectGARPs`), which sends the same number in
    # bursts.

    def __init__(
        self,
        switch: Switch,
        bridge: Bridge,
        world: World,
        stats: Counter[str],
        sync: Synced,
    ) -> None:
        self._switch = switch
        self._stats = stats
        self._sync = sync
        self._announcements = Announcements(bridge, world)
        self._new = asyncio.Event()
        self._rounds_due = asyncio.Event()
        self._repeats_due = asyncio.Event()

    def update(self, world: World, changes: Changes) -> None:
        """Take over a changed World."""
        self._announcements.update(world, changes)

    async def announce(self, key: EndpointKey) -> None:
        """Announce a local endpoint whose port the switch has now; return when that has been sent.

        What is not sent within PATIENCE seconds is sent later.
        """
        if not self._announcements.repeat(key):
            return
        self.wake()
        with suppress(TimeoutError, SwitchUnavailable):
            async with asyncio.timeout(PATIENCE):
                await self._send_due()
                await self._switch.session.barrier()

    def wake(self) -> None:
        """Send what is due as soon as the switch has its flows."""
        self._new.set()
        if self._announcements.rounds_left:
            self._rounds_due.set()

    async def run(self, *, period: float = PERIOD, repeat: float = REPEAT) -> None:
        """Send announcements, for ever."""
        async with asyncio.TaskGroup() as sending:
            sending.create_task(self._send_new())
            sending.create_task(self._send_repeats(repeat))
            sending.create_task(self._send_rounds(period))

    async def _send_new(self) -> None:
        while True:
            await self._new.wait()
            self._new.clear()
            await self._send_due()

    async def _send_due(self) -> None:
        await self._sync.wait_synced()
        self._send_endpoints(self._announcements.take_new())
        if self._announcements.repeats_left:
            self._repeats_due.set()

    async def _send_repeats(self, pause: float) -> None:
        while True:
            await self._repeats_due.wait()
            await asyncio.sleep(pause)
            await self._sync.wait_synced()
            self._send_endpoints(self._announcements.take_repeat())
            if not self._announcements.repeats_left:
                self._repeats_due.clear()

    def _send_endpoints(self, endpoints: NewEndpoints) -> None:
        self._send(endpoints.learned)
        self._announce(endpoints.announced)

    async def _send_rounds(self, period: float) -> None:
        while True:
            await self._rounds_due.wait()
            await self._sync.wait_synced()
            sent = self._announcements.take_round()
            self._stats["GARPSent"] += len(sent)
            self._announce(sent)
            if not self._announcements.rounds_left:
                self._rounds_due.clear()
            await asyncio.sleep(period)

    def _announce(self, frames: Sequence[PacketOut]) -> None:
        self._stats["GarpPktSent"] += len(frames)
        self._send(frames)

    def _send(self, frames: Sequence[PacketOut]) -> None:
        for frame in frames:
            self._switch.send_packet(frame.data, frame.actions, in_port=frame.in_port)
