"""Makes the host what the World says: bridges, tunnel ports and flows. Converges, never replays.

Facts come in through `apply` (store events), `put_port` / `remove_port` (endpoints of this host)
and OVSDB's own report. `run_ports` has bridges, uplink and tunnels mended wherever OVSDB differs
from what should be there; `run_flows` carries the World's changes to `ofnet.agent`, which does the
same for the switch. All of it may be repeated at any time, and nothing is deleted before the World
is complete (ADR 11).

Next modules: `netplugin.world.builder` (facts -> World), `ofnet.agent` (World -> flows -> switch),
`netplugin.bridges.uplinks` and `netplugin.bridges.tunnels` (ports in OVSDB),
`netplugin.masters.progress` (how far all this has come). Nothing here knows CNI or REST.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from core.change_notifier import ChangeNotifier
from core.errors import ContivError, Exhausted, Invalid, NotFound, SwitchRefused, SwitchUnavailable
from core.ids import EndpointKey, NetworkId, TenantName
from core.logs import fields
from core.tasks import backoff
from netplugin.bridges.tunnels import Tunnels
from netplugin.bridges.uplinks import Uplinks
from netplugin.masters.progress import Progress
from netplugin.ovsdb import Ovsdb
from netplugin.world.builder import WorldBuilder
from netplugin.world.conversion import LocalPort
from netplugin.world.vrfs import MAX_VRF, external_ids, stored_vrfs
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge
from state.records import GlobalRecord, GroupRecord, HostRecord, NetworkRecord
from state.watch import Changed, Event, Reached, Removed

log = logging.getLogger(__name__)


class Reconciler:
    """One per agent; the only one that tells the bridges and the switch what to be.

    `make_bridges` is asked for the bridges again when one is gone from OVSDB.
    """

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        world: WorldBuilder,
        agents: Mapping[Bridge, BridgeAgent],
        make_bridges: Callable[[], Awaitable[None]],
        uplinks: Uplinks,
        tunnels: Tunnels,
        progress: Progress,
    ) -> None:
        self._ovsdb = ovsdb
        self._world = world
        self._agents = agents
        self._make_bridges = make_bridges
        self._uplinks = uplinks
        self._tunnels = tunnels
        self._progress = progress
        self._dirty = asyncio.Event()
        self._ports_dirty = asyncio.Event()
        self._ports_dirty.set()
        self._learnt = ChangeNotifier()
        self._groups = ChangeNotifier()
        self._settings = ChangeNotifier()
        self._local_ports = ChangeNotifier()
        self._batch: asyncio.Future[None] | None = None
        self._ended = False
        world.observe(self._dirty.set)

    # -- facts from the store ------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Take over a change of the store; flows and tunnel ports follow by themselves.

        A record that cannot be read is reported; the last good one stays in force.
        """
        if isinstance(event, Reached):
            self._progress.told(event.prefix, event.rev)
            self._world.set_revision(event.prefix, event.rev)
        else:
            self._understand(event)
        self._learnt.notify()

    def _understand(self, event: Changed | Removed) -> None:
        try:
            self._learn(event)
        except Invalid as exc:
            log.warning("record not understood", extra=fields(error=exc))
            self._progress.misunderstood(event.key, str(exc))
        else:
            self._progress.understood(event.key)

    def _learn(self, event: Changed | Removed) -> None:
        if isinstance(event, Changed):
            self._world.put(event.record)
        else:
            self._world.remove(event.record)
        if isinstance(event.record, HostRecord):
            self._ports_dirty.set()
        if isinstance(event.record, GroupRecord):
            self._groups.notify()
        if isinstance(event.record, GlobalRecord):
            self._settings.notify()

    def groups_changed(self) -> asyncio.Event:
        """Return the event that the next change of a group sets: take it, look, then wait."""
        return self._groups.next

    def settings_changed(self) -> asyncio.Event:
        """Return the event that the next change of the cluster's settings sets, likewise."""
        return self._settings.next

    def ports_changed(self) -> asyncio.Event:
        """Return the event that the next change of an endpoint's port sets, likewise."""
        return self._local_ports.next

    def learnt(self) -> asyncio.Event:
        """Return the event that the next change of the store sets, likewise."""
        return self._learnt.next

    async def network(self, nid: NetworkId, patience: float) -> NetworkRecord:
        """Return a network's record, waiting up to `patience` seconds for the store to tell of it.

        Raises NotFound, or Exhausted for a network this host has no VRF id for.
        """
        try:
            async with asyncio.timeout(patience):
                while (record := self._world.networks.get(nid)) is None:
                    await self._learnt.next.wait()
        except TimeoutError as exc:
            raise NotFound(f"network {nid} is not known on this host") from exc
        if not self._world.networks.on_bridge(nid):
            raise Exhausted(f"no VRF id left on this host for network {nid}: {MAX_VRF} in use")
        return record

    async def caught_up(self, revisions: Mapping[str, int], patience: float) -> None:
        """Return when all that the store says up to these revisions, by prefix, is in force here.

        Of policies both switches have it then; endpoints they get before whatever is put next.
        Raises SwitchUnavailable if that is not so within `patience` seconds.
        """
        late = ""
        try:
            async with asyncio.timeout(patience):
                while late := self._progress.late(revisions):
                    await self._progress.changed().wait()
        except TimeoutError as exc:
            raise SwitchUnavailable(f"policies are not in force on this host yet: {late}") from exc

    # -- endpoints of this host ----------------------------------------------------------------

    async def put_port(self, key: EndpointKey, port: LocalPort) -> None:
        """Add or change an endpoint's port; return when the switch has acknowledged its flows.

        Raises SwitchUnavailable or SwitchRefused; the port stays in the World then, for the
        caller to take back.
        """
        self._world.endpoints.put_port(key, port)
        self._local_ports.notify()
        await self.flush()

    async def remove_port(self, key: EndpointKey) -> None:
        """Remove an endpoint's port; return when the switch has acknowledged it."""
        self._world.endpoints.remove_port(key)
        self._local_ports.notify()
        await self.flush()

    # -- flows ---------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Return when the switch has acknowledged all that was known at the time of the call.

        Concurrent calls share one round. Raises SwitchUnavailable or SwitchRefused.
        """
        if self._ended:
            raise SwitchUnavailable("the agent stops")
        if self._batch is None:
            self._batch = asyncio.get_running_loop().create_future()
        self._dirty.set()
        await asyncio.shield(self._batch)

    async def run_flows(self) -> None:
        """Carry changes of the World to the switch, for ever."""
        waits = backoff()
        try:
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                if await self._round():
                    waits = backoff()
                else:
                    await asyncio.sleep(next(waits))
                    self._dirty.set()
        finally:
            self._ended = True
            batch, self._batch = self._batch, None
            _settle(batch, SwitchUnavailable("the agent stops"))

    async def _round(self) -> bool:
        """Carry what changed to the switch; return False if it could not be handed over yet."""
        batch, self._batch = self._batch, None
        handed_over = False
        try:
            await self._keep_vrfs()
            handed_over = True
            await self._push()
        except ContivError as exc:
            # nothing is lost: `ofnet.agent` keeps what it was given, the World the rest
            log.debug("flows not acknowledged", extra=fields(error=exc))
            _settle(batch, exc)
        except BaseException:
            _settle(batch, SwitchUnavailable("the agent stops"))
            raise
        else:
            _settle(batch, None)
        return handed_over

    async def _push(self) -> None:
        known = self._world.revisions
        taken = self._world.take_changed()
        results = await asyncio.gather(
            *(self._agents[bridge].update(*taken[bridge]) for bridge in taken),
            return_exceptions=True,
        )
        self._progress.handed_over(known)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _keep_vrfs(self) -> None:
        """Keep the VRF ids in OVSDB before any flow speaks of them."""
        while (kept := self._kept_vrfs()) != (wanted := dict(self._world.vrfs)):
            ids = external_ids(kept, wanted)
            await self._ovsdb.set_bridge_external_ids(Bridge.VXLAN, ids)

    def _kept_vrfs(self) -> dict[TenantName, int]:
        return stored_vrfs(self._ovsdb.bridge_external_ids(Bridge.VXLAN))

    # -- tunnel ports --------------------------------------------------------------------------

    async def run_ovsdb(self) -> None:
        """Pass OVSDB's changes on, for ever: the report is the truth about ports."""
        while True:
            changed = self._ovsdb.changed()
            self._ports_dirty.set()
            await changed.wait()

    async def run_ports(self) -> None:
        """Keep bridges and tunnel ports in step with OVSDB and the peers, for ever."""
        waits = backoff()
        while True:
            await self._ports_dirty.wait()
            self._ports_dirty.clear()
            try:
                await self._converge_bridges()
                await self.converge()
            except ContivError as exc:
                log.warning("tunnel ports not in step", extra=fields(error=exc))
                await asyncio.sleep(next(waits))
                self._ports_dirty.set()
            else:
                waits = backoff()

    async def _converge_bridges(self) -> None:
        if self._agents.keys() - self._ovsdb.bridges():
            log.warning("a bridge was gone, made again")
            await self._make_bridges()
            self._dirty.set()  # the VRF ids that were kept with the bridge are gone too

    async def converge(self) -> None:
        """Make the uplink and tunnel ports as they should be, once.

        Raises SwitchUnavailable; or SwitchRefused, when all others are made.
        """
        refused: SwitchRefused | None = None
        try:
            await self._uplinks.converge()
        except SwitchRefused as exc:  # which is no reason to be without tunnels
            refused = exc
        faults = self._uplinks.faults
        lost = (f"uplink card {card} is out of use: {why}" for card, why in faults.items())
        self._progress.show("uplink", lost)
        await self._tunnels.converge()
        if refused is not None:
            raise refused


def _settle(batch: asyncio.Future[None] | None, failure: ContivError | None) -> None:
    """Tell those who wait for a round how it went."""
    if batch is None:
        return
    if failure is None:
        batch.set_result(None)
    else:
        batch.set_exception(failure)
        batch.exception()  # all who waited may have been cancelled
