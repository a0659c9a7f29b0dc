"""Tells when addresses of this host changed, to everything that depends on them.

In come the kernel's events (`netplugin.kernel.netns.KernelLinks.address_changes`); out goes an
event for whoever reads the addresses: the pod guard, the flows of the host's own ports, the record
of this host. Must not know what they do with them.
"""

import asyncio
import logging

from core.change_notifier import ChangeNotifier
from core.errors import HostError
from core.retry import PACE, Loop, Pace, retry
from netplugin.kernel.netns import KernelLinks

log = logging.getLogger(__name__)


class AddressWatch:
    """Watches the addresses of this host. One per agent."""

    def __init__(self, links: KernelLinks, pace: Pace = PACE) -> None:
        self._links = links
        self._loop = Loop(log, "addresses of this host not followed", pace=pace, errors=HostError)
        self._changed = ChangeNotifier()

    def changed(self) -> asyncio.Event:
        """Return an event that is set when an address changed from now on."""
        return self._changed.next

    async def run(self) -> None:
        """Watch, for ever; tells of a change whenever the kernel's events may have been missed."""
        await retry(self._loop, self._follow)

    async def _follow(self) -> None:
        async for _ in self._links.address_changes():
            self._loop.works()
            self._changed.notify()
        raise HostError("the kernel's events have ended")
