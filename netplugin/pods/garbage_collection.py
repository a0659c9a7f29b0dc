"""Finds endpoints of this host that nobody will delete any more, and releases them.

Only their host can tell: a pod whose namespace and link are gone (its runtime never sent the DEL),
and a record that names this host while neither journal, nor OVSDB, nor a link knows of it. What is
suspected at every look for a grace period is removed as by a DEL (`netplugin.pods.handler`,
`netplugin.pods.teardown`). No look counts while something cannot be seen, and nothing is released
that a call is at work on.

An endpoint whose record is gone while its port is here was reclaimed by netmaster: its address may
be somebody else's by now, so it is cut off, by two looks.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable

from core.errors import ContivError
from core.grace_period import GracePeriod
from core.ids import EndpointKey
from core.logs import fields
from netplugin.pods.handler import Pods
from netplugin.pods.host import PodHost
from netplugin.pods.journal import JournalEntry
from netplugin.pods.pod_ports import PodPorts
from netplugin.world import port_names
from state.records import EndpointRecord, NetworkRecord, NetworkType

log = logging.getLogger(__name__)


class GarbageCollector:
    """Looks after this host's endpoints; `grace` in seconds, 0 releases nothing."""

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
        self._every = host.timing.collect_every
        self._clock = clock
        self._vanished = GracePeriod[JournalEntry](grace)
        self._unknown = GracePeriod[tuple[EndpointKey, str]](grace)
        self._revoked = GracePeriod[EndpointKey](host.timing.revoked_grace)
        self.tally: Counter[str] = Counter()
        """How often something was mended, by what was wrong."""

    async def run(self) -> None:
        """Look again and again, for ever."""
        if self._journal.unreadable:
            log.warning(
                "endpoints nobody knows are kept: the journal has entries that cannot be read",
                extra=fields(count=self._journal.unreadable),
            )
        pause = min(self._every, self._grace / 4) if self._grace else self._every
        while True:
            await asyncio.sleep(pause)
            try:
                await self.look()
            except ContivError as exc:
                log.warning("leaks not looked for", extra=fields(error=exc))

    async def look(self) -> None:
        """Look once, and mend what is due. Raises ContivError when that fails; look again."""
        at = self._clock()
        for key in self._revoked.observe(self._world.endpoints.revoked(), at):
            self._pods.cut_off(key)
            self.tally["cut off"] += 1
        if not self._grace:
            return
        try:
            links = await self._links.links()
            linkless = await self._without_pod(links)
        except ContivError:
            self._vanished.reset()
            self._unknown.reset()
            raise
        for entry in self._vanished.observe(linkless, at):
            log.warning("pod is gone without a DEL", extra=fields(endpoint=entry.key))
            await self._pods.release(entry)
            self.tally["pod gone"] += 1
        if not self._sees_all(links):
            self._unknown.reset()
            return
        nobodys = {(one.key, one.ip_address): (one, net) for one, net in self._nobodys()}
        for due in self._unknown.observe(nobodys, at):
            log.warning("endpoint is known to nobody here", extra=fields(endpoint=due[0]))
            await self._pods.forsake(*nobodys[due])
            self.tally["record unknown"] += 1

    async def _without_pod(self, links: frozenset[str]) -> list[JournalEntry]:
        """Return the endpoints whose link is gone, and their pod's namespace with it."""
        linkless = [
            e for e in self._registry.settled() if port_names.switch_name(e.port) not in links
        ]
        return [entry for entry in linkless if not await self._links.netns_alive(entry.netns)]

    def _sees_all(self, links: Iterable[str]) -> bool:
        """Tell whether all that could know an endpoint of this host is there to be asked."""
        used = self._pod_ports.used_numbers()
        ours = {number for name in links if (number := port_names.number_of(name)) is not None}
        return (
            self._world.complete
            and self._ovsdb.connected
            and not self._journal.unreadable
            and ours <= used
        )

    def _nobodys(self) -> list[tuple[EndpointRecord, NetworkRecord]]:
        """Return this host's records that nothing here stands for, with their networks.

        The endpoints of infra networks are the host's own, and in no journal.
        """
        rows = self._ovsdb.ports().values()
        on_switch = {row.external_ids.get(port_names.ENDPOINT_ID) for row in rows}
        return [
            (record, network)
            for record in self._world.endpoints.here()
            if record.key not in on_switch
            and not self._pods.stands_for(record.key)
            and (network := self._world.networks.get(record.network)) is not None
            and network.type is not NetworkType.INFRA
        ]
