"""Probes whether packets of the tunnels' size pass between this host and the others.

A link on the path may carry less than those at both ends. Then short packets pass and long ones are
lost, and connections hang as soon as they send more than a few bytes
(docs/original/user-issues.md #21). So each peer is sent an echo request as long as the longest
packet of a tunnel. If there is no answer, a short one follows: a host that answers that one only is
reported. A host that answers neither may be down, or not answer echo requests at all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from core.errors import HostError
from core.ids import HostLabel
from core.logs import fields

log = logging.getLogger(__name__)

SHORT: Final = 576
"""Size in bytes that every host accepts (RFC 791)."""
MAX_CONCURRENT: Final = 16

Probe = Callable[[IPv4Address, int], Awaitable[bool]]
"""Returns whether a packet of so many bytes comes back from an address. Raises HostError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTiming:
    """Seconds between probes of all peers, and between checks whether peers or size changed.

    A peer that was added is probed after a check, not at once: it is given time to start.
    """

    interval: float
    check: float = 2.0


class PathMtu:
    """The paths to other hosts. `peers` are their tunnel endpoints, `size` is the longest packet.

    `report_faults` is given all faults after each round of probes, by host; `on_silence` each host
    that answers no probe at all.
    """

    def __init__(
        self,
        *,
        peers: Callable[[], Mapping[HostLabel, IPv4Address]],
        size: Callable[[], int],
        probe: Probe,
        timing: ProbeTiming,
        report_faults: Callable[[Mapping[HostLabel, str]], None],
        on_silence: Callable[[HostLabel], None] = lambda _host: None,
    ) -> None:
        self._peers = peers
        self._size = size
        self._probe = probe
        self._timing = timing
        self._report_faults = report_faults
        self._on_silence = on_silence
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._failed: set[HostLabel] = set()

    async def run(self) -> None:
        """Probe on the interval, and soon after peers or size have changed, for ever."""
        loop = asyncio.get_running_loop()
        probed: object = None
        due = loop.time()
        while True:
            now = (self._peers(), self._size())
            if now != probed or loop.time() >= due:
                probed, due = now, loop.time() + self._timing.interval
                await self.probe_all()
            await asyncio.sleep(self._timing.check)

    async def probe_all(self) -> None:
        """Probe every peer once; log and report the faults."""
        size = self._size()
        peers = dict(self._peers())
        faults = await asyncio.gather(
            *(self._fault(host, peer, size) for host, peer in peers.items())
        )
        found = {host: fault for host, fault in zip(peers, faults, strict=True) if fault}
        for host, fault in found.items():
            log.warning("path MTU probe failed", extra=fields(peer=host, error=fault))
        for host in self._failed & (peers.keys() - found.keys()):
            log.info("path MTU recovered", extra=fields(peer=host))
        self._failed = set(found)
        self._report_faults(found)

    async def _fault(self, host: HostLabel, peer: IPv4Address, size: int) -> str:
        async with self._slots:
            try:
                if await self._probe(peer, size):
                    return ""
                if not await self._probe(peer, SHORT):
                    self._on_silence(host)
                    return ""
            except HostError as exc:
                return str(exc)
        return (
            f"packets of {size} bytes do not pass to {peer}, short ones do: raise the MTU of what "
            f"lies between, or start agents with a smaller --mtu"
        )
