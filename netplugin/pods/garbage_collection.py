"""Garbage collection: releases endpoints of this host for which no DEL will come.

Only their host can recognise them. Either the pod's namespace and link are gone (its runtime never
sent the DEL), or a record names this host while journal, OVSDB and links do not know it. What every
scan finds for a whole grace period is removed as by a DEL (`netplugin.pods.handler`,
`netplugin.pods.teardown`).

An endpoint whose record is gone while its port is here was reclaimed by netmaster. Its address may
belong to another pod by now, so its flows are removed after two scans; but not while this host
claims it from a store that went back (`netplugin.pods.claims`).
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable

from core.collections.grace_period import GracePeriod
from core.errors import ContivError
from core.ids import EndpointKey
from core.logs import fields
from core.retry import REMOTE, Loop, retry
from netplugin.pods.handler import Pods
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from state.records import EndpointRecord, NetworkRecord, NetworkType

log = logging.getLogger(__name__)


class GarbageCollector:
    """Scans this host's endpoints; `grace` in seconds, 0 releases nothing."""

    def __init__(
        self,
        host: PodHost,
        pods: Pods,
        pod_ports: PodPorts,
        *,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pods = pods
        self._registry = host.registry
        self._pod_ports = pod_ports
        self._journal = host.journal
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._world = host.world
        self._grace = grace
        self._every = host.settings.timing.collect_every
        self._clock = clock
        self._loop = Loop(log, "garbage collection failed", patience=REMOTE)
        self._vanished = GracePeriod[JournalEntry](grace)
        self._unknown = GracePeriod[tuple[EndpointKey, str]](grace)
        self._revoked = GracePeriod[EndpointKey](host.settings.timing.revoked_grace)
        self.tally: Counter[str] = Counter()
        """How many objects were collected, by cause (shown at `/debug/leaks`)."""

    async def run(self) -> None:
        """Scan for ever."""
        if self._journal.unreadable:
            log.warning(
                "garbage collection: keeping unknown endpoints, the journal has unreadable entries",
                extra=fields(count=self._journal.unreadable),
            )
        pause = min(self._every, self._grace / 4) if self._grace else self._every
        while True:
            await asyncio.sleep(pause)
            await retry(self._loop, self.scan)

    # Deleting a live pod's endpoint is far worse than keeping a dead one for a while. So absence is
    # believed only where it was seen: by every scan of a grace period, and only by scans in which
    # all sources that could know the endpoint were readable. A scan that could not read one of them
    # resets the grace period instead of counting. `GracePeriod` also asks for two scans, so that
    # a single scan after a long pause of the process does not suffice.

    async def scan(self) -> None:
        """Scan once and collect what is due. Raises ContivError; the next scan retries."""
        at = self._clock()
        revoked = self._world.endpoints.revoked() - self._registry.claiming()
        for key in self._revoked.observe(revoked, at):
            self._pods.remove_flows(key)
            self.tally["cut off"] += 1
        if not self._grace:
            return
        try:
            links = await self._links.links()
            podless = await self._entries_without_pod(links)
        except ContivError:
            self._vanished.reset()
            self._unknown.reset()
            raise
        for entry in self._vanished.observe(podless, at):
            log.warning(
                "garbage collection: pod is gone without a DEL", extra=fields(endpoint=entry.key)
            )
            await self._pods.release(entry)
            self.tally["pod gone"] += 1
        if not self._sources_readable(links):
            self._unknown.reset()
            return
        # The address is part of the suspect: a record that was deleted and granted again has the
        # same key, and must get a grace period of its own.
        unknown = {(one.key, one.ip_address): (one, net) for one, net in self._unknown_records()}
        for due in self._unknown.observe(unknown, at):
            log.warning(
                "garbage collection: record without endpoint", extra=fields(endpoint=due[0])
            )
            await self._pods.release_record(*unknown[due])
            self.tally["record unknown"] += 1

    async def _entries_without_pod(self, links: frozenset[str]) -> list[JournalEntry]:
        """Return the endpoints whose link and namespace are both gone."""
        # A link alone proves nothing: an operator may have deleted it from a running pod.
        settled = self._registry.settled()
        linkless = [e for e in settled if port_names.switch_name(e.port) not in links]
        return [entry for entry in linkless if not await self._links.netns_alive(entry.netns)]

    def _sources_readable(self, links: Iterable[str]) -> bool:
        """Tell whether every source that could know an endpoint of this host is readable."""
        used = self._pod_ports.used_numbers()
        # A pod's link without an entry means that an entry is missing, not that the pod is: the
        # journal was lost or replaced.
        pod_links = {number for name in links if (number := port_names.number_of(name)) is not None}
        return (
            self._world.complete
            and self._ovsdb.connected
            and not self._journal.unreadable
            and pod_links <= used
        )

    def _unknown_records(self) -> list[tuple[EndpointRecord, NetworkRecord]]:
        """Return this host's records without endpoint, with their networks.

        The endpoints of infra networks belong to the host itself and are in no journal.
        """
        rows = self._ovsdb.ports().values()
        on_switch = {row.external_ids.get(port_names.ENDPOINT_ID) for row in rows}
        return [
            (record, network)
            for record in self._world.endpoint_records.here()
            if record.key not in on_switch
            and not self._pods.has(record.key)
            and (network := self._world.networks.get(record.network)) is not None
            and network.type is not NetworkType.INFRA
        ]
