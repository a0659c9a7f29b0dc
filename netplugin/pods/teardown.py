"""What a DEL leaves for later: netmaster's release, the links and the OVS ports of gone endpoints.

In come journal entries in state REMOVING (`netplugin.pods.handler`, or the journal of an agent that
died); each is worked on until netmaster has released the endpoint, the veth is gone and the OVS
port is gone, and only then leaves the journal. Taking a port off the switch stalls ovs-vswitchd for
some 13 ms (docs/notes/host.md §3) after OVSDB has answered, so ports go one at a time with
a breath between them and, for up to a second, not while an ADD is waiting for its own port.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from core.errors import ContivError, MasterUnavailable, SwitchUnavailable
from core.ids import EndpointKey
from core.logs import fields
from core.tasks import Supervisor, backoff
from netplugin.pods.host import PodHost
from netplugin.pods.journal import JournalEntry
from netplugin.world import port_names
from ofnet.world import Bridge

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Job:
    entry: JournalEntry
    released: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Teardown:
    """Finishes what DELs began. Work starts when it is scheduled; `supervisor` owns the tasks."""

    def __init__(self, host: PodHost, supervisor: Supervisor) -> None:
        self._master = host.master
        self._journal = host.journal
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._timing = host.timing
        self._supervisor = supervisor
        self._jobs: dict[EndpointKey, _Job] = {}
        self._stale: set[str] = set()
        self._adding = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._one_port = asyncio.Lock()
        self._next_port_at = 0.0

    @property
    def ended(self) -> bool:
        """True once the agent stops: what is to be removed is left to the next one."""
        return self._supervisor.stopping

    def has(self, key: EndpointKey) -> bool:
        """Tell whether an endpoint is still being removed."""
        return key in self._jobs

    def ports(self) -> set[int]:
        """Return the numbers of the ports that are still being removed."""
        stale = (port_names.number_of(name) for name in self._stale)
        removed = {job.entry.port for job in self._jobs.values()}
        return removed | {number for number in stale if number is not None}

    def schedule(self, entry: JournalEntry) -> None:
        """Remove an endpoint in the background; its journal entry says REMOVING already."""
        self._start(entry)

    async def release(self, entry: JournalEntry) -> None:
        """As `schedule`, and wait for netmaster's release for as long as a DEL should."""
        job = self._start(entry)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.release_wait):
                await job.released.wait()

    async def finished(self, key: EndpointKey, patience: float) -> None:
        """Return when nothing of an endpoint is left.

        Raises MasterUnavailable or SwitchUnavailable, by what is still missing, when that takes
        more than `patience` seconds; the work goes on.
        """
        job = self._jobs.get(key)
        if job is None:
            return
        try:
            async with asyncio.timeout(patience):
                await job.done.wait()
        except TimeoutError as exc:
            if job.released.is_set():
                raise SwitchUnavailable(f"port of {key} is still being removed") from exc
            raise MasterUnavailable(f"netmaster has not released {key} yet") from exc

    def sweep(self, bridge: str, names: Iterable[str]) -> None:
        """Remove ports of ours that no journal entry knows, with their links."""
        for name in names:
            if name not in self._stale:
                log.info("stale port", extra=fields(bridge=bridge, port=name))
                self._stale.add(name)
                self._supervisor.spawn(f"sweep {name}", self._sweep(bridge, name))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep port removals from slowing an ADD down for the length of the body."""
        self._adding += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._adding -= 1
            if self._adding == 0:
                self._quiet.set()

    def _start(self, entry: JournalEntry) -> _Job:
        job = self._jobs.get(entry.key)
        if job is None:
            job = self._jobs[entry.key] = _Job(entry)
            if not self.ended:
                self._supervisor.spawn(f"remove {entry.key}", self._remove(job))
        return job

    async def _sweep(self, bridge: str, name: str) -> None:
        try:
            await self._remove_port(bridge, name)
        finally:
            self._stale.discard(name)

    async def _remove(self, job: _Job) -> None:
        entry = job.entry
        async with asyncio.TaskGroup() as steps:
            steps.create_task(self._release(job))
            steps.create_task(self._remove_port(entry.bridge, port_names.switch_name(entry.port)))
            steps.create_task(self._remove_access(port_names.access_name(entry.port)))
        await _until_done("journal entry removed", lambda: self._journal.remove(entry.key))
        del self._jobs[entry.key]
        job.done.set()
        log.info("pod removed", extra=fields(endpoint=entry.key))

    async def _release(self, job: _Job) -> None:
        entry = job.entry
        await _until_done(
            f"endpoint {entry.key} released",
            lambda: self._master.delete_endpoint(entry.tenant, entry.network, entry.container_id),
        )
        job.released.set()

    async def _remove_access(self, name: str) -> None:
        if name in self._ovsdb.ports() or name in await self._links.links():
            await self._remove_port(Bridge.VXLAN, name)

    async def _remove_port(self, bridge: str, name: str) -> None:
        await _until_done(f"link {name} removed", lambda: self._links.delete_links([name]))
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._timing.yield_to_add
        async with self._one_port:
            await asyncio.sleep(max(0.0, self._next_port_at - loop.time()))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(latest):
                    await self._quiet.wait()
            await _until_done(f"port {name} removed", lambda: self._ovsdb.delete_port(bridge, name))
            self._next_port_at = loop.time() + self._timing.port_gap


async def _until_done(what: str, step: Callable[[], Awaitable[None]]) -> None:
    for pause in backoff(limit=5.0):
        try:
            await step()
        except ContivError as exc:
            log.warning("not yet: %s", what, extra=fields(error=exc))
            await asyncio.sleep(pause)
        else:
            return
