"""Teardown: the part of a DEL that the runtime does not wait for.

In come journal entries in state REMOVING (`netplugin.pods.handler`, or the journal of an agent that
died). Each is worked on until netmaster has released the endpoint and the veth pair and the OVS
port are removed, and only then deleted from the journal.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from core.errors import HostError, MasterUnavailable, SwitchUnavailable
from core.ids import EndpointKey
from core.logs import fields
from core.retry import REMOTE, Loop, retry
from core.tasks import Supervisor
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from ofnet.world import Bridge

log = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""Ports that are removed by one change: ovs-vswitchd is silent for a tenth of a second at most."""


@dataclass(slots=True)
class _Job:
    entry: JournalEntry
    released: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Teardown:
    """Finishes DELs in tasks of `supervisor`. Work starts when it is scheduled."""

    def __init__(self, host: PodHost, supervisor: Supervisor) -> None:
        self._master = host.master
        self._journal = host.journal
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._timing = host.settings.timing
        self._supervisor = supervisor
        self._jobs: dict[EndpointKey, _Job] = {}
        self._stale: set[str] = set()
        self._adding = 0
        self._no_adds = asyncio.Event()
        self._no_adds.set()
        self._leaving: dict[str, str] = {}
        """The ports that wait for their removal, in turn, and the bridge of each."""
        self._one_batch = asyncio.Lock()
        self._links_left: set[str] = set()
        # There is no limit: each step frees something that nothing else would ever free.
        self._loop = Loop(log, "removal failed", patience=REMOTE)

    @property
    def ended(self) -> bool:
        """True once the agent stops: the rest is left to the next one."""
        return self._supervisor.stopping

    def has(self, key: EndpointKey) -> bool:
        """Tell whether an endpoint is still being removed."""
        return key in self._jobs

    def entries(self) -> list[JournalEntry]:
        """Return the endpoints that are still being removed."""
        return [job.entry for job in self._jobs.values()]

    def ports(self) -> set[int]:
        """Return the numbers of the ports that are still being removed."""
        stale = (port_names.number_of(name) for name in self._stale)
        removed = {job.entry.port for job in self._jobs.values()}
        return removed | {number for number in stale if number is not None}

    def schedule(self, entry: JournalEntry) -> None:
        """Remove an endpoint in the background; its journal entry says REMOVING already."""
        self._start(entry)

    async def release(self, entry: JournalEntry) -> None:
        """As `schedule`, and wait up to `release_wait` for netmaster's release."""
        job = self._start(entry)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.release_wait):
                await job.released.wait()

    async def wait_finished(self, key: EndpointKey, within: float) -> None:
        """Return when the teardown of an endpoint is complete.

        Raises MasterUnavailable or SwitchUnavailable, by the step that is outstanding, after
        `within` seconds; the work goes on.
        """
        job = self._jobs.get(key)
        if job is None:
            return
        try:
            async with asyncio.timeout(within):
                await job.done.wait()
        except TimeoutError as exc:
            if job.released.is_set():
                raise SwitchUnavailable(f"port of {key} is still being removed") from exc
            raise MasterUnavailable(f"netmaster has not released {key} yet") from exc

    def sweep(self, bridge: str, names: Iterable[str]) -> None:
        """Remove ports with a pod's name that no journal entry knows, with their links."""
        for name in names:
            if name not in self._stale:
                log.info("stale port, removing", extra=fields(bridge=bridge, port=name))
                self._stale.add(name)
                self._supervisor.spawn(f"sweep {name}", self._sweep(bridge, name))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hold port removals back, for at most `yield_to_add` seconds each, during the body."""
        self._adding += 1
        self._no_adds.clear()
        try:
            yield
        finally:
            self._adding -= 1
            if self._adding == 0:
                self._no_adds.set()

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
            steps.create_task(self._remove_host_interface(port_names.access_name(entry.port)))
        # The entry goes last: a teardown that the agent's end interrupts is repeated as a whole by
        # the next agent. Each step is idempotent for that reason.
        step = self._loop.of(f"journal entry of {entry.key}")
        await retry(step, lambda: self._journal.remove(entry.key))
        del self._jobs[entry.key]
        job.done.set()
        log.info("pod removed", extra=fields(endpoint=entry.key))

    async def _release(self, job: _Job) -> None:
        entry = job.entry
        await retry(
            self._loop.of(f"release of endpoint {entry.key}"),
            lambda: self._master.delete_endpoint(
                entry.spec.tenant, entry.spec.network, entry.spec.endpoint
            ),
        )
        job.released.set()

    async def _remove_host_interface(self, name: str) -> None:
        if name in self._ovsdb.ports() or name in await self._links.links():
            await self._remove_port(Bridge.VXLAN, name)

    async def _remove_port(self, bridge: str, name: str) -> None:
        # Deleting a port stalls ovs-vswitchd for some 13 ms after OVSDB has answered
        # (docs/notes/host.md §3), and every ADD waits for ovs-vswitchd to number its port. So ports
        # are not deleted while an ADD is in progress; but each only yields for a limited time,
        # since ADDs may follow each other without end.
        latest = asyncio.get_running_loop().time() + self._timing.yield_to_add
        self._leaving[name] = bridge
        async with self._one_batch:
            while name in self._leaving:  # it may have gone with another one
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(latest):
                        await self._no_adds.wait()
                await self._remove_batch(dict(islice(self._leaving.items(), AT_ONCE)))
        if name in self._links_left:
            await retry(self._loop.of(f"link {name}"), lambda: self._links.delete_links([name]))
            self._links_left.discard(name)

    async def _remove_batch(self, ports: Mapping[str, str]) -> None:
        """Remove ports and their links; return when ovs-vswitchd has removed the ports."""
        # The links go second. Open vSwitch goes through all of its ports when rows have changed,
        # and when links have: it is busy with the rows when these links go, and looks once.
        step = self._loop.of(f"port {next(iter(ports))}")
        await retry(step, lambda: self._ovsdb.delete_ports(ports))
        try:
            await self._links.delete_links(ports)
        except HostError:
            self._links_left |= ports.keys()
        await self._ovsdb.applied()
        for name in ports:
            del self._leaving[name]
