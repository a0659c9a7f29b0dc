"""Keeps the ports of this host's endpoints in OVSDB as they should be, whoever changes them.

In come endpoints (`netplugin.roster`), what records say of their networks and groups
(`netplugin.world`) and OVSDB's own report. A row that is gone is made again, a rate that differs is
corrected, a changed OpenFlow number is told to the World, and a row that is nobody's is swept
(`netplugin.removal`). `netplugin.pods` makes and removes endpoints by what is here; how a row is
written is `netplugin.ovsdb`'s knowledge.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from core.errors import ContivError, SwitchUnavailable
from core.ids import EndpointKey, network_id
from core.logs import fields
from core.tasks import backoff, unbroken
from netplugin import ports
from netplugin.journal import Entry
from netplugin.netns import HostLinks
from netplugin.ovsdb import Ovsdb, PortRow, PortSpec
from netplugin.reconcile import Reconciler
from netplugin.removal import Removal
from netplugin.roster import Roster
from netplugin.translation import LocalPort
from netplugin.world import WorldBuilder
from ofnet.world import Bridge
from state.records import NetworkRecord

log = logging.getLogger(__name__)

PORT_READY: Final = 10.0
"""Seconds a new port may take to get its OpenFlow number."""
LOOK_AGAIN: Final = 0.2
"""Seconds between looks at all rows: every ADD changes OVSDB, one look covers many."""
RECLAIMED: Final = "it was reclaimed: cut off until its runtime deletes the pod"
_BRIDGES: Final = frozenset(Bridge)


class PodPorts:
    """The ports of this host's endpoints. One per agent."""

    def __init__(
        self,
        *,
        roster: Roster,
        links: HostLinks,
        ovsdb: Ovsdb,
        world: WorldBuilder,
        reconciler: Reconciler,
        removal: Removal,
    ) -> None:
        self._roster = roster
        self._links = links
        self._ovsdb = ovsdb
        self._world = world
        self._reconciler = reconciler
        self._removal = removal
        self._last = 0

    def in_use(self) -> set[int]:
        """Return the numbers of the ports that are somebody's."""
        return self._roster.ports() | self._removal.ports()

    def seen(self, number: int) -> None:
        """Say that a number was in use: new ones come after it."""
        self._last = max(self._last, number)

    def next_number(self) -> int:
        """Return the number for a new port."""
        rows = self._ovsdb.ports()
        named = {ports.number_of(name) for name in rows}
        given = {row.ofport for row in rows.values()}  # somebody else's port has a number too
        taken = self.in_use() | {number for number in named | given if number is not None}
        self._last = ports.next_number(self._last, taken)
        return self._last

    async def attach(self, entry: Entry, network: NetworkRecord) -> None:
        """Add an endpoint's port and return when it has its number. Raises SwitchUnavailable."""
        name = ports.switch_name(entry.port)
        with self._removal.paused():
            await unbroken(self._add_row(entry, network))  # OVSDB does what it was sent anyway
            ofport = await self._ovsdb.wait_ofport(name, PORT_READY)
        if ofport != entry.port:
            raise SwitchUnavailable(f"port {name} got number {ofport} instead of {entry.port}")

    def place(self) -> dict[EndpointKey, str]:
        """Tell the World of every endpoint whose port and record are known; say why not others.

        An endpoint without a record was reclaimed while this agent was away: its port stays, cut
        off, until its runtime deletes the pod.
        """
        missing: dict[EndpointKey, str] = {}
        rows = self._ovsdb.ports()
        for entry in self._roster.settled():
            port, record = self._world.port(entry.key), self._world.endpoint(entry.key)
            row = rows.get(ports.switch_name(entry.port))
            if row is None or not row.ofport or row.ofport < 0:
                missing[entry.key] = "its port is gone"
            elif port is not None:
                self._world.put_port(entry.key, replace(port, ofport=row.ofport))
            elif record is not None:
                self._world.put_port(entry.key, LocalPort(record=record, ofport=row.ofport))
            else:
                missing[entry.key] = RECLAIMED
        return missing

    async def run(self) -> None:
        """Keep the ports as they should be, for ever; failures are tried again."""
        waits = backoff()
        while True:
            changed = self._ovsdb.changed()
            if await self.converge():
                waits = backoff()
                await changed.wait()
                await asyncio.sleep(LOOK_AGAIN)
            else:
                await asyncio.sleep(next(waits))

    async def converge(self) -> bool:
        """Give endpoints whose row is gone another, follow changed numbers, sweep what is nobody's.

        Return False when OVSDB did not take a row.
        """
        done = await self._restore_lost(self._ovsdb.ports())
        self.place()
        self._reconciler.wake()
        self._sweep(self._ovsdb.ports())
        return done

    async def _restore_lost(self, rows: Mapping[str, PortRow]) -> bool:
        lost = [e for e in self._roster.settled() if ports.switch_name(e.port) not in rows]
        # without its link a row would be of no use: the pod is gone, its DEL is to come
        links = await self._links.links() if lost else frozenset()
        done = True
        for entry in lost:
            if ports.switch_name(entry.port) in links:
                done = await self._restore(entry) and done
        return done

    async def _restore(self, entry: Entry) -> bool:
        async with self._roster.serial(entry.container_id):
            network = self._world.network(network_id(entry.network, entry.tenant))
            if self._roster.get(entry.key) is not entry or network is None:
                return True
            log.warning("port was gone, made again", extra=fields(endpoint=entry.key))
            try:
                await self._add_row(entry, network)
            except ContivError as exc:
                log.warning("port not made", extra=fields(endpoint=entry.key, error=exc))
                return False
            return True

    def _sweep(self, rows: Mapping[str, PortRow]) -> None:
        if not self._world.complete:
            return
        used = self.in_use()
        for name, row in rows.items():
            number = ports.number_of(name)
            if number is not None and number not in used and row.bridge in _BRIDGES:
                self._removal.sweep(row.bridge, [name])

    async def _add_row(self, entry: Entry, network: NetworkRecord) -> None:
        await self._ovsdb.add_port(
            entry.bridge,
            PortSpec(
                name=ports.switch_name(entry.port),
                ofport_request=entry.port,
                tag=network.pkt_tag,
                external_ids={ports.ENDPOINT_ID: entry.key},
            ),
        )
