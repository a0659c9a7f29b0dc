"""Keeps the host's ends of pods' links up, and says which of them are gone.

In come the kernel's events about links, and the complete endpoints that no call is working on
(`netplugin.pods.registry.endpoint_registry`). A link that somebody set down is set up again. One
that is gone while its pod's namespace is there is a fault of the host
(`netplugin.masters.progress`) until it is back or the pod is deleted: the pod's end went with it,
so that only another ADD restores it. What ended with its namespace is left to
`netplugin.pods.garbage_collection`; what a pod does to its own end is its own business.
`netplugin.pods.pod_ports` mends the ports in Open vSwitch.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from core.collections.grace_period import GracePeriod
from core.errors import ContivError, HostError
from core.logs import fields
from core.retry import Loop, retry
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from ofnet.world import Bridge

log = logging.getLogger(__name__)

SUBJECT: Final = "links of pods"


class LinkKeeper:
    """The host's ends of the links of pods. One per agent."""

    def __init__(self, host: PodHost) -> None:
        self._registry = host.registry
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._progress = host.progress
        self._timing = host.settings.timing
        self._gone = GracePeriod[tuple[str, JournalEntry]](host.settings.timing.link_gone)
        self._faults: tuple[str, ...] = ()
        self._changed = asyncio.Event()
        self._following = Loop(log, "links of pods not followed", errors=HostError)
        self._reading = Loop(log, "links of pods not read")

    async def whole(self) -> None:
        """Return if no pod's link has a fault. Raises HostError."""
        if self._faults:
            raise HostError("; ".join(self._faults))

    async def run(self) -> None:
        """Keep the links, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(retry(self._following, self._follow))
            while True:
                # what changes from here on leads to another look
                self._changed.clear()
                await retry(self._reading, self._attempt)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._timing.links_checked):
                        await self._changed.wait()

    async def _follow(self) -> None:
        """Note that links have changed; events of one pause are one change."""
        async for _ in self._links.changes():
            self._following.works()
            self._changed.set()
            await asyncio.sleep(self._timing.link_rescan)
        raise HostError("the kernel's events have ended")

    async def _attempt(self) -> None:
        try:
            await self._look()
        except ContivError as exc:
            self._gone.reset()
            self._tell([])
            self._faults = (f"{self._reading.name}: {exc}",)
            raise

    async def _look(self) -> None:
        owners = dict(self._owners())
        if not owners:
            self._tell([])
            return
        found = await self._links.keep_up(list(owners))
        for name in sorted(found.set_up):
            log.warning(
                "link of pod was down, set up",
                extra=fields(endpoint=owners[name].key, port=name),
            )
        missing = [(name, owners[name]) for name in found.missing]
        suspects = [one for one in missing if await self._links.netns_alive(one[1].netns)]
        # A DEL that came meanwhile removes the link, and what it works on is not idle.
        idle = {id(entry) for entry in self._registry.idle()}
        suspects = [(name, entry) for name, entry in suspects if id(entry) in idle]
        due = self._gone.observe(suspects, time.monotonic())
        self._tell(
            sorted(
                [
                    *(f"{_about(name, entry)} is missing: delete the pod" for name, entry in due),
                    *(
                        f"{_about(name, owners[name])} is down and cannot be set up: {reason}"
                        for name, reason in found.refused.items()
                    ),
                ]
            )
        )

    def _owners(self) -> Iterator[tuple[str, JournalEntry]]:
        """Yield the links of complete endpoints by name."""
        rows: Mapping[str, object] = self._ovsdb.ports(Bridge.VXLAN)
        for entry in self._registry.idle():
            yield port_names.switch_name(entry.port), entry
            access = port_names.access_name(entry.port)
            if access in rows:  # only pods on networks without a gateway have one
                yield access, entry

    def _tell(self, faults: list[str]) -> None:
        new = tuple(faults)
        for fault in new:
            if fault not in self._faults:
                log.warning("pod link faulty", extra=fields(error=fault))
        self._faults = new
        self._progress.set_faults(SUBJECT, new)


def _about(name: str, entry: JournalEntry) -> str:
    return f"link {name} of pod {entry.name or entry.spec.container_id}"
