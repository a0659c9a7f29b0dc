"""Purges the megaflows of the userspace datapath after changes, where Open vSwitch needs it.

Before 3.1.3, 3.0.5 and 2.17.8, a change of one megaflow may be written to another that overlaps it
(`dpif_netdev_flow_put` looked it up by a packet instead of its id). The datapath then forwards what
the flows deny, or drops what they allow, for as long as packets come. After
`revalidator/purge` each megaflow is made anew from the flows.

In come requests from `netplugin.masters.progress`, one for each change that the switches have
acknowledged; the caller's function is called once the change is in force in the datapath.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from core.logs import fields
from core.releases import has_fault
from core.retry import Loop, Pace, retry
from netplugin.ovsdb.control_socket import SwitchCommands

log = logging.getLogger(__name__)

PURGE: Final = "upcall/enable-megaflows"
"""Turns on what is on already, and before it stops the revalidators and empties the datapath.

`revalidator/purge` of these releases runs beside the revalidators: it passes over a megaflow that
one of them holds, and a change that one computed before it is written after it, to a megaflow that
was made anew (Open vSwitch's commit bd86266ea). Until connections rest, packets then go by flows of
before. `revalidator/pause` is no remedy: a second one, or a resume too many, blocks ovs-vswitchd.
"""

PAUSE: Final = 0.25
"""Seconds between two purges, each of which sends a packet of every connection to ovs-vswitchd."""

RETRY: Final = Pace(0.05, 1.0)
"""Each change waits for one attempt, and is in force for `netmaster` afterwards."""

_MENDED: Final = {(2, 17): 8, (3, 0): 5, (3, 1): 3}
UPGRADE: Final = "upgrade Open vSwitch to 2.17.8, 3.0.5, 3.1.3 or later"


class PurgedSwitch(SwitchCommands, Protocol):
    """What is used of `netplugin.ovsdb.control_socket.ControlSocket`."""

    def path(self) -> Path:
        """Return the socket of the daemon that runs now."""
        ...


def is_affected(version: str) -> bool:
    """Return whether a release needs purges; `version` is a text that contains its number."""
    # if not known: a purge that is not needed costs little, one that is missing opens a policy
    return has_fault(version, _MENDED)


class MegaflowPurger:
    """Purges after requests: at most one at a time, and one more for all that came meanwhile."""

    def __init__(
        self,
        control: PurgedSwitch,
        *,
        pause: float = PAUSE,
        pace: Pace = RETRY,
    ) -> None:
        self._control = control
        self._pause = pause
        self._loop = Loop(
            log, "megaflows not purged", pace=pace, remedy="packets may go by flows of before"
        )
        self._due = asyncio.Event()
        self._waiting: list[Callable[[], None]] = []
        self._versions: dict[Path, bool] = {}

    def request(self, done: Callable[[], None]) -> None:
        """Have `done` called after a purge that begins from now on."""
        self._waiting.append(done)
        self._due.set()

    async def run(self) -> None:
        """Serve requests, for ever."""
        while True:
            await self._due.wait()
            purged = await retry(self._loop, self._serve)
            await asyncio.sleep(self._pause if purged else 0.0)

    async def _serve(self) -> bool:
        self._due.clear()
        waiting, self._waiting = self._waiting, []
        try:
            return await self._purge()
        finally:
            # Also without a purge: the flows are right, and a host whose switch is away has other
            # errors. What waits goes on, and the fault is shown until a purge succeeds.
            for done in waiting:
                done()

    async def _purge(self) -> bool:
        if not await self._is_affected():
            return False
        await self._control.call(PURGE)
        return True

    async def _is_affected(self) -> bool:
        # The path has the daemon's process id: an upgraded Open vSwitch is asked again.
        path = self._control.path()
        if path not in self._versions:
            version = await self._control.call("version")
            self._versions = {path: is_affected(version)}
            if self._versions[path]:
                log.warning(
                    "Open vSwitch may keep wrong megaflows, purging them after each change: %s",
                    UPGRADE,
                    extra=fields(version=version),
                )
        return self._versions[path]
