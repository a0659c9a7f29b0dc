"""Carries changes of the World to the switches, in rounds.

In come changes of the World (`netplugin.world.builder` notifies of the first since it was taken)
and calls that must know when the switches have them (`flush`, `put_port`, `remove_port`). A round
stores the VRF ids in OVSDB, takes the World of each bridge and hands it to its `ofnet.agent`, which
makes flows of it and returns when the switch has acknowledged them. `netplugin.masters.progress`
is told how far all this has come.

Ports in OVSDB are `netplugin.bridges.uplink.port_reconciler`'s. Nothing here knows CNI or REST.
"""

import asyncio
import logging
from collections.abc import Mapping

from core.change_notifier import ChangeNotifier
from core.errors import ContivError, SwitchUnavailable
from core.ids import EndpointKey, TenantName
from core.logs import fields
from core.retry import Loop, retry
from netplugin.bridges.ended_connections import EndedConnections
from netplugin.bridges.record_events import RecordEvents
from netplugin.masters.progress import Progress
from netplugin.ovsdb import Ovsdb
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.bridges.vrfs import external_ids, stored_vrfs
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.tables import service_zones
from ofnet.world import Bridge

log = logging.getLogger(__name__)


class Reconciler:
    """The only writer of flows. One per agent; `records` applies the store's events."""

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        world: WorldBuilder,
        agents: Mapping[Bridge, BridgeAgent],
        records: RecordEvents,
        progress: Progress,
        ended: EndedConnections,
    ) -> None:
        self._ovsdb = ovsdb
        self._world = world
        self._agents = agents
        self.records = records
        self._progress = progress
        self._due = asyncio.Event()
        self._local_ports = ChangeNotifier()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False
        self._zones: frozenset[int] = frozenset()
        self._connections = ended
        self._loop = Loop(log, "VRF ids not stored", vital=True)
        world.observe(self._due.set)

    # -- endpoints of this host ----------------------------------------------------------------

    async def put_port(self, key: EndpointKey, port: LocalPort) -> None:
        """Add or change an endpoint's port; return when the switch has acknowledged its flows.

        Raises SwitchUnavailable or SwitchRefused; the port stays in the World then, for the
        caller to remove.
        """
        self._world.put_port(key, port)
        self._local_ports.notify()
        await self.flush()

    async def announce(self, bridge: Bridge, key: EndpointKey) -> None:
        """Announce an endpoint on the physical network, now that the switch has its port."""
        await self._agents[bridge].garp_sender.announce(key)

    async def remove_port(self, key: EndpointKey) -> None:
        """Remove an endpoint's port; return when the switch has acknowledged it."""
        self._world.remove_port(key)
        self._local_ports.notify()
        await self.flush()

    async def unrealised(self, bridge: Bridge, key: EndpointKey) -> str:
        """Return what keeps an endpoint's flows from a switch; "" if the switch has them all.

        Waits while the flows are being compared with the switch. Raises SwitchUnavailable or
        SwitchRefused.
        """
        await self.flush()
        return await self._agents[bridge].unrealised(key)

    def ports_changed(self) -> asyncio.Event:
        """Return the event that the next change of an endpoint's port sets."""
        return self._local_ports.next

    # -- rounds --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Return when the switch has acknowledged all that the World had at the time of the call.

        Concurrent calls share one round. Raises SwitchUnavailable or SwitchRefused.
        """
        if self._ended:
            raise SwitchUnavailable("the agent stops")
        # A caller joins the round that takes the World next. A round that has taken it already may
        # lack the caller's change, and its success would prove nothing.
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        self._due.set()
        # One caller that is cancelled (a CNI request that timed out) must not cancel the others.
        await asyncio.shield(self._waiting)

    def on_bridges_recreated(self) -> None:
        """Begin a round: the VRF ids that were stored on the bridge are gone with it."""
        self._zones = frozenset()
        self._due.set()

    async def run(self) -> None:
        """Run a round after every change of the World and every `flush`, for ever."""
        try:
            while True:
                await self._due.wait()
                await retry(self._loop, self._run_round)
        finally:
            self._ended = True
            _resolve(self._take_waiting(), SwitchUnavailable("the agent stops"))

    async def _run_round(self) -> None:
        """Carry the changes to the switches. Raises ContivError if the World cannot be taken."""
        self._due.clear()
        try:
            await self._store_vrf_ids()
        except ContivError as exc:
            _resolve(self._take_waiting(), exc)
            raise
        # The callers and the World are taken together, with no await in between. So this round is
        # the one that sends the changes of these callers, and they get its outcome. Callers from
        # here on get that of the next.
        waiting = self._take_waiting()
        try:
            await self._update_switches()
        except ContivError as exc:
            # Nothing is lost, so that there is no retry here: the agent of the bridge keeps what it
            # was given and sends it on connect or at the next audit.
            log.debug("flows not acknowledged", extra=fields(error=exc))
            _resolve(waiting, exc)
        except BaseException:
            _resolve(waiting, SwitchUnavailable("the agent stops"))
            raise
        else:
            _resolve(waiting, None)

    def _take_waiting(self) -> asyncio.Future[None] | None:
        waiting, self._waiting = self._waiting, None
        return waiting

    async def _update_switches(self) -> None:
        # Both are read without an await between them: the revisions are those of the World taken.
        revisions, histories = self._world.revisions, self._progress.histories
        changed = self._world.take_changed()
        self._progress.set_faults("underlay", self._world.faults())
        results = await asyncio.gather(
            *(self._agents[bridge].update(*change) for bridge, change in changed.items()),
            return_exceptions=True,
        )
        self._progress.mark_sent(revisions, histories)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _store_vrf_ids(self) -> None:
        """Store the VRF ids in OVSDB, before any flow uses them.

        An agent that died after sending flows with an id that was not stored would give the id to
        another tenant after its restart, and the flows of both would meet in one VRF. The ids may
        change while they are written, hence the loop. With them go the zones of connection tracking
        that services have in these VRFs.
        """
        while (stored := self._stored_vrf_ids()) != (wanted := dict(self._world.vrfs)):
            ids = external_ids(stored, wanted)
            await self._ovsdb.set_bridge_external_ids(Bridge.VXLAN, ids)
        zones = service_zones(wanted.values())
        if zones != self._zones:
            await self._ovsdb.remember_ended(Bridge.VXLAN, zones)
            self._zones = zones
            self._connections.written(zones)

    def _stored_vrf_ids(self) -> dict[TenantName, int]:
        return stored_vrfs(self._ovsdb.bridge_external_ids(Bridge.VXLAN))


def _resolve(waiting: asyncio.Future[None] | None, failure: ContivError | None) -> None:
    """Pass the outcome of a round to the callers of `flush` that waited for it."""
    if waiting is None:
        return
    if failure is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(failure)
        waiting.exception()  # marks it as retrieved: all callers may have been cancelled
