"""Keeps the ports of this host's endpoints in OVSDB as they should be, whoever changes them.

In come endpoints (`netplugin.pods.endpoint_registry`), what records say of their networks and
groups (`netplugin.world.builder`) and OVSDB's own report. A row that is gone is made again, a rate
that differs (`netplugin.pods.rate_limits`) is corrected, a changed OpenFlow number is told to the
World, and a row that is nobody's is swept (`netplugin.pods.teardown`). `netplugin.pods.handler`
makes and removes endpoints by what is here; how a row is written is `netplugin.ovsdb`'s knowledge.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from core.errors import ContivError, SwitchUnavailable
from core.ids import EndpointKey, group_key, network_id
from core.logs import fields
from core.tasks import backoff, unbroken
from netplugin.bridges.reconcile_loop import set_on_change
from netplugin.bridges.reconciler import Reconciler
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import Ovsdb, PortRow, PortSpec
from netplugin.pods import rate_limits
from netplugin.pods.endpoint_registry import EndpointRegistry
from netplugin.pods.journal import JournalEntry
from netplugin.pods.teardown import Teardown
from netplugin.world import port_names
from netplugin.world.builder import WorldBuilder
from netplugin.world.conversion import LocalPort
from ofnet.world import Bridge
from state.records import GroupRecord, NetworkRecord

log = logging.getLogger(__name__)

LOOK_AGAIN: Final = 0.2
"""Seconds between looks at all rows: every ADD changes OVSDB, one look covers many."""
RECLAIMED: Final = "it was reclaimed: cut off until its runtime deletes the pod"
_BRIDGES: Final = frozenset(Bridge)


class PodPorts:
    """The ports of this host's endpoints. One per agent."""

    def __init__(
        self,
        *,
        roster: EndpointRegistry,
        links: KernelLinks,
        ovsdb: Ovsdb,
        world: WorldBuilder,
        reconciler: Reconciler,
        removal: Teardown,
    ) -> None:
        self._roster = roster
        self._links = links
        self._ovsdb = ovsdb
        self._world = world
        self._reconciler = reconciler
        self._removal = removal
        self._last = 0
        self._look = asyncio.Event()

    def in_use(self) -> set[int]:
        """Return the numbers of the ports that are somebody's."""
        return self._roster.ports() | self._removal.ports()

    def seen(self, number: int) -> None:
        """Say that a number was in use: new ones come after it."""
        self._last = max(self._last, number)

    def next_number(self) -> int:
        """Return the number for a new port."""
        named = {n for name in self._ovsdb.ports() if (n := port_names.number_of(name)) is not None}
        given = self._ovsdb.numbers()  # somebody else's port has a number too
        self._last = port_names.next_number(self._last, self.in_use() | named | given)
        return self._last

    def tag(self, entry: JournalEntry, network: NetworkRecord) -> int:
        """Return the VLAN of an endpoint's port: its group's own, which an ACI fabric gives it.

        Everywhere else that is the network's (`ovsdriver.go: CreateEndpoint`).
        """
        group = self.group(entry)
        return network.pkt_tag if group is None else group.pkt_tag

    async def attach(self, entry: JournalEntry, network: NetworkRecord) -> None:
        """Add an endpoint's port and return when it has its number. Raises SwitchUnavailable."""
        name = port_names.switch_name(entry.port)
        with self._removal.paused():
            await unbroken(self._add_row(entry, network))  # OVSDB does what it was sent anyway
            ofport = await self._ovsdb.wait_ofport(name)
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
            port = self._world.endpoints.port(entry.key)
            record = self._world.endpoints.get(entry.key)
            row = rows.get(port_names.switch_name(entry.port))
            if row is None or not row.ofport or row.ofport < 0:
                missing[entry.key] = "its port is gone"
            elif port is not None:
                self._world.endpoints.put_port(entry.key, replace(port, ofport=row.ofport))
            elif record is not None:
                port = LocalPort(record=record, ofport=row.ofport, number=entry.port)
                self._world.endpoints.put_port(entry.key, port)
            else:
                missing[entry.key] = RECLAIMED
        return missing

    async def run(self) -> None:
        """Keep the ports as they should be, for ever; failures are tried again."""
        async with asyncio.TaskGroup() as following:
            for news in (self._ovsdb.changed, self._reconciler.records.groups_changed):
                following.create_task(set_on_change(news, self._look))
            await self._look_for_ever()

    async def _look_for_ever(self) -> None:
        waits = backoff()
        while True:
            await self._look.wait()
            await asyncio.sleep(LOOK_AGAIN)
            self._look.clear()
            if await self.converge():
                waits = backoff()
            else:
                await asyncio.sleep(next(waits))
                self._look.set()

    async def converge(self) -> bool:
        """Give endpoints whose row is gone another, follow changed numbers, sweep what is nobody's.

        Rates are corrected, those of groups that have changed and those changed by hand. Return
        False when OVSDB did not take something.
        """
        done = await self._restore_lost(self._ovsdb.ports())
        done = await self._police(self._ovsdb.ports()) and done
        self.place()
        self._sweep(self._ovsdb.ports())
        return done

    async def _restore_lost(self, rows: Mapping[str, PortRow]) -> bool:
        lost = [e for e in self._roster.settled() if port_names.switch_name(e.port) not in rows]
        # without its link a row would be of no use: the pod is gone, its DEL is to come
        links = await self._links.links() if lost else frozenset()
        done = True
        for entry in lost:
            if port_names.switch_name(entry.port) in links:
                done = await self._restore(entry) and done
        return done

    async def _restore(self, entry: JournalEntry) -> bool:
        async with self._roster.serial(entry.container_id):
            network = self._world.networks.get(network_id(entry.network, entry.tenant))
            if self._roster.get(entry.key) is not entry or network is None:
                return True
            log.warning("port was gone, made again", extra=fields(endpoint=entry.key))
            try:
                await self._add_row(entry, network)
            except ContivError as exc:
                log.warning("port not made", extra=fields(endpoint=entry.key, error=exc))
                return False
            return True

    async def _police(self, rows: Mapping[str, PortRow]) -> bool:
        done = True
        for entry in self._roster.entries():
            wanted = self.limits(entry)
            for name in (port_names.switch_name(entry.port), port_names.access_name(entry.port)):
                row = rows.get(name)
                if row is not None and (row.policing_rate, row.policing_burst) != wanted:
                    done = await self._limit(entry, name, *wanted) and done
        return done

    async def _limit(self, entry: JournalEntry, name: str, rate: int, burst: int) -> bool:
        about = fields(endpoint=entry.key, port=name, rate=rate, burst=burst)
        try:
            await self._ovsdb.set_policing(name, rate=rate, burst=burst)
        except ContivError as exc:
            log.warning("port not limited", extra=about | fields(error=exc))
            return False
        log.info("port limited", extra=about)
        return True

    def _sweep(self, rows: Mapping[str, PortRow]) -> None:
        if not self._world.complete:
            return
        used = self.in_use()
        for name, row in rows.items():
            number = port_names.pod_number(name)
            if number is not None and number not in used and row.bridge in _BRIDGES:
                self._removal.sweep(row.bridge, [name])

    def group(self, entry: JournalEntry) -> GroupRecord | None:
        """Return the group of an endpoint, if it has one that is known."""
        if not entry.group:
            return None
        return self._world.endpoints.group(group_key(entry.group, entry.tenant))

    def limits(self, entry: JournalEntry) -> tuple[int, int]:
        """Return the rate and burst each port of an endpoint is to have."""
        group = self.group(entry)
        return (0, 0) if group is None else (rate_limits.rate_of(group.bandwidth), group.burst)

    async def _add_row(self, entry: JournalEntry, network: NetworkRecord) -> None:
        rate, burst = self.limits(entry)
        await self._ovsdb.add_port(
            entry.bridge,
            PortSpec(
                name=port_names.switch_name(entry.port),
                ofport_request=entry.port,
                tag=self.tag(entry, network),
                external_ids={port_names.ENDPOINT_ID: entry.key},
                policing_rate=rate,
                policing_burst=burst,
            ),
        )
