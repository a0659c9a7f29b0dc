"""Makes uplink and tunnel ports in OVSDB what they should be. Converges, never replays.

In come OVSDB's own report and the hosts of the cluster (`netplugin.bridges.record_events`); each
change of either makes all of them be compared with the desired state again. What is missing or
wrong is corrected by `netplugin.bridges.bridge_keeper`, `netplugin.bridges.uplink.uplinks` and
`netplugin.bridges.vxlan.tunnels`; the latter two also set the ports that are ready on the World.
"""

import asyncio
import logging
from contextlib import suppress

from core.errors import SwitchRefused
from core.retry import Loop, retry
from netplugin.bridges.bridge_keeper import BridgeKeeper
from netplugin.bridges.reconcile_loop import set_on_change
from netplugin.bridges.record_events import RecordEvents
from netplugin.bridges.uplink.uplinks import Uplinks
from netplugin.bridges.vxlan.tunnels import Tunnels
from netplugin.masters.progress import Progress
from netplugin.ovsdb import Ovsdb

log = logging.getLogger(__name__)


class PortReconciler:
    """The ports between this host and others. One per agent.

    `keeper` creates bridges anew that were deleted from OVSDB.
    """

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        records: RecordEvents,
        keeper: BridgeKeeper,
        uplinks: Uplinks,
        tunnels: Tunnels,
        progress: Progress,
    ) -> None:
        self._ovsdb = ovsdb
        self._records = records
        self._keeper = keeper
        self._uplinks = uplinks
        self._tunnels = tunnels
        self._progress = progress
        self._due = asyncio.Event()
        self._loop = Loop(log, "tunnel ports not in sync")

    async def run(self) -> None:
        """Reconcile after every change of OVSDB and of the hosts, for ever.

        A tunnel port that Open vSwitch could not add may be tried again without any change.
        """
        async with asyncio.TaskGroup() as triggers:
            for changed in (self._ovsdb.changed, self._records.hosts_changed):
                triggers.create_task(set_on_change(changed, self._due))
            await self._reconcile_forever()

    async def _reconcile_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tunnels.next_retry()):
                    await self._due.wait()
            await retry(self._loop, self._reconcile)

    async def _reconcile(self) -> None:
        self._due.clear()
        await self._keeper.converge()
        await self.converge()

    async def converge(self) -> None:
        """Make the uplink and tunnel ports what they should be, once.

        Raises SwitchUnavailable; or SwitchRefused, after all other ports have been made.
        """
        # A host without its uplink still needs its tunnels: one refused port stops no other.
        refused: SwitchRefused | None = None
        try:
            await self._uplinks.converge()
        except SwitchRefused as exc:
            refused = exc
        faults = self._uplinks.faults.items()
        self._progress.set_faults(
            "uplink", (f"uplink card {card} is out of use: {why}" for card, why in faults)
        )
        await self._tunnels.converge()
        if refused is not None:
            raise refused
