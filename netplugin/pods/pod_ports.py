"""Reconciles the OVSDB ports of this host's endpoints.

In come endpoints (`netplugin.pods.registry.endpoint_registry`), the records of their networks and
groups (`netplugin.world.builder`) and the content of OVSDB. A missing row is recreated, a different
rate limit (`netplugin.pods.rate_limits`) corrected, a changed OpenFlow number put into the World,
and a row without endpoint swept (`netplugin.pods.teardown`).
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from core.errors import ContivError, SwitchRefused, SwitchUnavailable
from core.ids import EndpointKey, group_key
from core.logs import fields
from core.retry import Loop, retry
from core.tasks import unbroken
from netplugin.bridges.reconcile_loop import set_on_change
from netplugin.ovsdb import PortRow, PortSpec
from netplugin.pods import rate_limits
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.pods.teardown import Teardown
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from ofnet.world import Bridge
from state.records import EndpointRecord, GroupRecord, NetworkRecord

log = logging.getLogger(__name__)

LOST: Final = "the store does not know it: cut off until it is claimed"
RECLAIMED: Final = "it was reclaimed: cut off until its runtime deletes the pod"
NAMED: Final = 3
"""Refused changes that an error names."""
_BRIDGES: Final = frozenset(Bridge)


class PodPorts:
    """The ports of this host's endpoints. One per agent."""

    def __init__(self, host: PodHost, teardown: Teardown) -> None:
        self._registry = host.registry
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._world = host.world
        self._reconciler = host.reconciler
        self._rescan = host.settings.timing.port_rescan
        self._metered = host.settings.tx_off  # in the userspace datapath
        self._teardown = teardown
        self._last = 0
        self._left_alone: set[int] = set()
        self._dirty = asyncio.Event()
        self._loop = Loop(log, "ports of pods not in sync")

    def used_numbers(self) -> set[int]:
        """Return the port numbers of all endpoints, also of those in teardown or left alone."""
        return self._registry.ports() | self._teardown.ports() | self._left_alone

    def reserve(self, number: int) -> None:
        """Mark a number as used before: new numbers come after it."""
        self._last = max(self._last, number)

    def leave_alone(self, number: int) -> None:
        """Keep the port of a running pod that is none of this host's endpoints, while it runs."""
        self._left_alone.add(number)

    def next_number(self) -> int:
        """Return the number for a new port."""
        # A number is reused as late as possible, and never while a port of that number or of a
        # pod's name is left, so that nothing of an old pod is taken for the new one's.
        named = {n for name in self._ovsdb.ports() if (n := port_names.number_of(name)) is not None}
        given = self._ovsdb.numbers()  # also of ports that this agent did not create
        self._last = port_names.next_number(self._last, self.used_numbers() | named | given)
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
        with self._teardown.paused():
            # OVSDB carries out a transaction that was sent, also if the caller is cancelled. The
            # undo must come after it, or the row stays.
            await unbroken(self._add_row(entry, network))
            ofport = await self._ovsdb.wait_ofport(name)
        if ofport != entry.port:
            raise SwitchUnavailable(f"port {name} got number {ofport} instead of {entry.port}")

    def publish(self) -> dict[EndpointKey, str]:
        """Put every endpoint with a port and a record into the World; return why others are not.

        An endpoint without a record was reclaimed while this agent was down: its port stays,
        without flows, until its runtime deletes the pod. Or the store lost it: until it is claimed.
        """
        missing: dict[EndpointKey, str] = {}
        rows = self._ovsdb.ports()
        for entry in self._registry.idle():
            port = self._world.endpoints.port(entry.key)
            record = self._world.endpoint_records.get(entry.key)
            row = rows.get(port_names.switch_name(entry.port))
            if row is None or not row.ofport or row.ofport < 0:
                missing[entry.key] = "its port is gone"
            elif port is not None:
                rate, burst = self.metered(entry)
                # compared first: each change of one port in OVSDB comes here with all of them
                if (port.ofport, port.rate, port.burst) != (row.ofport, rate, burst):
                    port = replace(port, ofport=row.ofport, rate=rate, burst=burst)
                    self._world.endpoints.put_port(entry.key, port)
            elif record is not None:
                port = self.local(entry, record, row.ofport)
                self._world.endpoints.put_port(entry.key, port)
            else:
                missing[entry.key] = LOST if entry.claiming else RECLAIMED
        return missing

    async def run(self) -> None:
        """Reconcile the ports for ever."""
        async with asyncio.TaskGroup() as triggers:
            for changed in (self._ovsdb.changed, self._reconciler.records.groups_changed):
                triggers.create_task(set_on_change(changed, self._dirty))
            await self._reconcile_forever()

    async def _reconcile_forever(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(self._rescan)
            await retry(self._loop, self.converge)

    async def converge(self) -> None:
        """Recreate missing rows, correct rate limits, publish numbers, sweep rows without endpoint.

        Raises HostError; or SwitchRefused, with what OVSDB refused, once all else is done.
        """
        self._dirty.clear()
        refused = [
            *await self._restore_lost(self._ovsdb.ports()),
            *await self._correct_rate_limits(self._ovsdb.ports()),
        ]
        self.publish()
        await self._forget_ended()
        self._sweep(self._ovsdb.ports())
        if refused:
            raise SwitchRefused("; ".join(refused[:NAMED]))

    async def _forget_ended(self) -> None:
        """Let ports that were left alone be swept when their pods are gone."""
        if self._left_alone:
            links = await self._links.links()
            self._left_alone = {n for n in self._left_alone if port_names.switch_name(n) in links}

    async def _restore_lost(self, rows: Mapping[str, PortRow]) -> list[str]:
        """Recreate rows of links that are there; return what OVSDB refused."""
        lost = [e for e in self._registry.idle() if port_names.switch_name(e.port) not in rows]
        # Where the link is gone too, the pod is: a DEL or garbage collection follows.
        links = await self._links.links() if lost else frozenset()
        tried = [
            await self._restore(entry)
            for entry in lost
            if port_names.switch_name(entry.port) in links
        ]
        return [refused for refused in tried if refused]

    async def _restore(self, entry: JournalEntry) -> str:
        async with self._registry.lock(entry.spec.container_id):
            network = self._world.networks.get(entry.spec.network_id)
            if self._registry.get(entry.key) is not entry or network is None:
                return ""
            log.warning("port missing in OVSDB, recreated", extra=fields(endpoint=entry.key))
            try:
                await self._add_row(entry, network)
            except ContivError as exc:
                return f"port of {entry.key} not recreated: {exc}"
            return ""

    async def _correct_rate_limits(self, rows: Mapping[str, PortRow]) -> list[str]:
        """Set rate limits that differ; return what OVSDB refused."""
        tried = []
        for entry in self._registry.entries():
            wanted = self.limits(entry)
            for name in (port_names.switch_name(entry.port), port_names.access_name(entry.port)):
                row = rows.get(name)
                if row is not None and (row.policing_rate, row.policing_burst) != wanted:
                    tried.append(await self._set_rate_limit(entry, name, *wanted))
        return [refused for refused in tried if refused]

    async def _set_rate_limit(self, entry: JournalEntry, name: str, rate: int, burst: int) -> str:
        about = fields(endpoint=entry.key, port=name, rate=rate, burst=burst)
        try:
            await self._ovsdb.set_policing(name, rate=rate, burst=burst)
        except ContivError as exc:
            return f"rate limit of {entry.key} not set: {exc}"
        log.info("rate limit set", extra=about)
        return ""

    def _sweep(self, rows: Mapping[str, PortRow]) -> None:
        # Before the World is complete, absence proves nothing.
        if not self._world.complete:
            return
        used = self.used_numbers()
        for name, row in rows.items():
            number = port_names.pod_number(name)
            if number is not None and number not in used and row.bridge in _BRIDGES:
                self._teardown.sweep(row.bridge, [name])

    def group(self, entry: JournalEntry) -> GroupRecord | None:
        """Return the group record of an endpoint; None without a group or without its record."""
        if not entry.spec.group:
            return None
        return self._world.endpoints.group(group_key(entry.spec.group, entry.spec.tenant))

    def limits(self, entry: JournalEntry) -> tuple[int, int]:
        """Return the rate limit and burst of each port of an endpoint."""
        group = self.group(entry)
        own = entry.spec.limit.rate, entry.spec.limit.burst
        if group is None:
            return own
        return rate_limits.stricter(own, (rate_limits.rate_of(group.bandwidth), group.burst))

    def metered(self, entry: JournalEntry) -> tuple[int, int]:
        """Return the rate limit and burst that an endpoint's flows have to keep.

        The userspace datapath takes packets before the kernel's limit, which a port's row stands
        for, could drop them.
        """
        return self.limits(entry) if self._metered else (0, 0)

    def local(self, entry: JournalEntry, record: EndpointRecord, ofport: int) -> LocalPort:
        """Return the port of an endpoint as the World has it."""
        rate, burst = self.metered(entry)
        return LocalPort(record=record, ofport=ofport, number=entry.port, rate=rate, burst=burst)

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
                keeps_queue=True,
            ),
        )
