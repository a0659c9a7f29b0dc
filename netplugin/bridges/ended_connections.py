"""Asks Open vSwitch whether it remembers ended connections as the database tells it to.

In come the zones whose policy `netplugin.bridges.reconciler` has written; out goes a warning if the
datapath's actions do not carry it. Userspace datapath only.
"""

# Open vSwitch 3.5.0 and 4.0.0 keep the policy in the database, list it, and commit connections
# without it: then a datapath forgets an ended connection after 30 s, before the provider's kernel.
# Asked by a trace of an action that no flow has: no packet is sent, and no release is presumed.

import asyncio
import logging
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from core.logs import fields
from core.retry import REMOTE, Loop, retry
from netplugin.bridges.megaflow_purge import PurgedSwitch
from netplugin.ovsdb.row_changes import ENDED
from netplugin.world.bridges.port_names import BRIDGE_OFPORT

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

TRACE: Final = "ofproto/trace-packet-out"
_PACKET: Final = f"in_port={BRIDGE_OFPORT},tcp,nw_src=192.0.2.1,nw_dst=192.0.2.2"
TRIES: Final = 10
PAUSE: Final = 1.0
"""Seconds between them: ovs-vswitchd takes a change of the database when it comes to it."""


def carries_policy(traced: str, zone: int) -> bool:
    """Return whether what `TRACE` says of a commit in a zone has a timeout policy."""
    return (
        re.search(rf"Datapath actions: .*ct\(commit,zone={zone},[^)]*timeout=", traced) is not None
    )


class EndedConnections:
    """Looks after each change of the zones; tells once for each ovs-vswitchd."""

    def __init__(
        self, control: PurgedSwitch, bridge: str, *, tries: int = TRIES, pause: float = PAUSE
    ) -> None:
        self._control = control
        self._bridge = bridge
        self._tries = tries
        self._pause = pause
        self._zones: Collection[int] = ()
        self._due = asyncio.Event()
        self._told: Path | None = None
        self._loop = Loop(
            log, "not known whether ended connections are remembered", patience=REMOTE
        )

    def written(self, zones: Collection[int]) -> None:
        """Have these zones looked at, whose policy is in the database."""
        self._zones = zones
        if zones:
            self._due.set()

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            await self._due.wait()
            await retry(self._loop, self._look)

    async def _look(self) -> None:
        self._due.clear()
        zone = min(self._zones)
        for _ in range(self._tries):
            said = await self._control.call(TRACE, self._bridge, _PACKET, f"ct(commit,zone={zone})")
            if carries_policy(said, zone):
                return
            await asyncio.sleep(self._pause)
        path = self._control.path()
        if path != self._told:
            self._told = path
            log.warning(
                "Open vSwitch forgets ended connections early",
                extra=fields(
                    seconds=ENDED["tcp_time_wait"],
                    error="the datapath does not take the zones' timeout policy from the database",
                ),
            )
