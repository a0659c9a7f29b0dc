"""Numbers of this host that its agent does not have itself, asked on each scrape of `/metrics`.

In come the data directory and ovs-vswitchd's control socket; out go readings of
`netplugin.startup.metric_names`. The kernel, a disk and another program are asked. What does not
answer within `LIMIT` is left out of the page, and a disk that hangs is not asked a second time.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from core.errors import ContivError
from core.metrics import Reading, labelled, single
from core.numbers import bounded
from netplugin.ovsdb.control_socket import SwitchCommands
from netplugin.startup import metric_names as names

LIMIT: Final = 1.0
"""Seconds; Prometheus waits ten for a page."""
CONNTRACK: Final = Path("/proc/sys/net/netfilter")
_MOST: Final = 2**63
_DATAPATH: Final = re.compile(r"(\S+):\s*")
_LOOKUPS: Final = re.compile(r"\s+lookups: hit:(\d+) missed:(\d+) lost:(\d+)\s*")
_FLOWS: Final = re.compile(r"\s+flows: (\d+)\s*")


class HostNumbers:
    """A `core.metrics.Source` of one host; `data` is the agent's data directory.

    Each number may take `limit` seconds.
    """

    def __init__(
        self,
        data: Path,
        vswitchd: SwitchCommands,
        *,
        conntrack: Path = CONNTRACK,
        limit: float = LIMIT,
    ) -> None:
        self._limit = limit
        self._data = data
        self._vswitchd = vswitchd
        self._conntrack = conntrack
        self._disk: asyncio.Future[os.statvfs_result] | None = None

    async def read(self) -> Iterable[Reading]:
        """Return the numbers of this moment; what is not to be had is left out."""
        disk, datapaths, count, limit = await asyncio.gather(
            self._free(),
            self._answer("dpctl/show"),
            self._answer("dpctl/ct-get-nconns"),
            self._answer("dpctl/ct-get-maxconns"),
        )
        entries = {"kernel": self._kernel("nf_conntrack_count"), "switch": _number(count)}
        limits = {"kernel": self._kernel("nf_conntrack_max"), "switch": _number(limit)}
        known = {one for one in entries if entries[one] is not None and limits[one]}
        return [
            *disk,
            *_datapaths(datapaths),
            labelled(names.CONNTRACK, {one: entries[one] or 0 for one in known}),
            labelled(names.CONNTRACK_LIMIT, {one: limits[one] or 0 for one in known}),
        ]

    async def _free(self) -> list[Reading]:
        if self._disk is not None and not self._disk.done():
            return []
        # A thread that waits for a disk cannot be ended: at most one does.
        loop = asyncio.get_running_loop()
        self._disk = loop.run_in_executor(None, os.statvfs, self._data)
        await asyncio.wait({self._disk}, timeout=self._limit)
        if not self._disk.done() or self._disk.exception() is not None:
            return []
        found = self._disk.result()
        return [
            single(names.DISK_FREE, found.f_bavail * found.f_frsize),
            single(names.DISK_SIZE, found.f_blocks * found.f_frsize),
        ]

    async def _answer(self, command: str) -> str:
        try:
            async with asyncio.timeout(self._limit):
                return await self._vswitchd.call(command)
        except (ContivError, TimeoutError):  # a kernel's datapath has no table of its own
            return ""

    def _kernel(self, name: str) -> int | None:
        try:
            return _number((self._conntrack / name).read_text())
        except OSError:  # this kernel tracks nothing yet
            return None


def _number(text: str) -> int | None:
    return bounded(text.strip(), 0, _MOST)


def _datapaths(shown: str) -> Iterator[Reading]:
    """Yield the readings of what `ovs-appctl dpctl/show` says of each datapath."""
    lookups: dict[tuple[str, ...], float] = {}
    flows: dict[str, float] = {}
    name = ""
    for line in shown.splitlines():
        if found := _DATAPATH.fullmatch(line):
            name = found[1]
        elif found := _LOOKUPS.fullmatch(line):
            for outcome, count in zip(("hit", "missed", "lost"), found.groups(), strict=True):
                lookups[name, outcome] = float(count)
        elif found := _FLOWS.fullmatch(line):
            flows[name] = float(found[1])
    yield Reading(names.LOOKUPS, lookups)
    yield labelled(names.CACHED, flows)
