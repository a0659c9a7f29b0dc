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
from typing import Final, NamedTuple, Protocol

from core.errors import HostError
from core.ids import HostLabel
from core.logs import fields
from core.retry import FaultBoard
from netplugin.world.peers import Address
from ofnet.world import Bridge

log = logging.getLogger(__name__)

SHORT: Final = 576
"""Size in bytes that every host accepts (RFC 791)."""
MAX_CONCURRENT: Final = 16
VXLAN_OVERHEAD: Final = {4: 50, 6: 70}
"""Bytes of Ethernet, IP, UDP and VXLAN headers around a pod's packet, by the version of IP."""

Probe = Callable[[Address, int], Awaitable[bool]]
"""Returns whether a packet of so many bytes comes back from an address. Raises HostError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTiming:
    """Seconds between probes of all peers, and between checks whether peers or size changed.

    A peer that was added is probed after a check, not at once: it is given time to start.
    """

    interval: float
    check: float = 2.0


class PodSizes(Protocol):
    """The MTUs of this host's pods (`netplugin.pods.mtu`)."""

    def of(self, bridge: Bridge) -> int:
        """Return the MTU of a bridge's pods."""
        ...


class TunnelEnds(Protocol):
    """The other hosts (`netplugin.world.peers`)."""

    def tunnel_ends(self) -> Mapping[HostLabel, Address]:
        """Return the addresses at which their tunnels end."""
        ...


class HopResolver(Protocol):
    """What resolves the next hops of tunnels (`netplugin.bridges.vxlan.tunnel_neighbours`)."""

    def suspect(self, host: HostLabel) -> None:
        """Have the next check ask for a peer anew, because it does not answer this host."""


class Paths(NamedTuple):
    """What probes found: faults by host, and the hosts that answered none."""

    faults: dict[HostLabel, str]
    silent: list[HostLabel]


class PathMtu:
    """The paths to other hosts. One per agent."""

    def __init__(
        self,
        *,
        peers: TunnelEnds,
        sizes: PodSizes,
        probe: Probe,
        timing: ProbeTiming,
        board: FaultBoard,
        next_hops: HopResolver,
    ) -> None:
        self._peers = peers
        self._sizes = sizes
        self._probe = probe
        self._timing = timing
        self._board = board
        self._next_hops = next_hops
        self._failed: set[HostLabel] = set()

    async def run(self) -> None:
        """Probe on the interval, and soon after peers or size have changed, for ever."""
        loop = asyncio.get_running_loop()
        probed: object = None
        due = loop.time()
        while True:
            now = (self._peers.tunnel_ends(), self._sizes.of(Bridge.VXLAN))
            if now != probed or loop.time() >= due:
                probed, due = now, loop.time() + self._timing.interval
                await self.probe_all()
            await asyncio.sleep(self._timing.check)

    async def probe_all(self) -> None:
        """Probe every peer once; log and report the faults."""
        peers = dict(self._peers.tunnel_ends())
        found, silent = await probe_paths(peers, self._sizes.of(Bridge.VXLAN), self._probe)
        for host in silent:
            self._next_hops.suspect(host)
        for host, fault in found.items():
            log.warning("path MTU probe failed", extra=fields(peer=host, error=fault))
        for host in self._failed & (peers.keys() - found.keys()):
            log.info("path MTU recovered", extra=fields(peer=host))
        self._failed = set(found)
        self._board.set_faults("paths", by_host("path", found))


def tunnel_size(peer: Address, mtu: int) -> int:
    """Return the bytes of the longest packet of the tunnel to an address, by the MTU of pods."""
    return mtu + VXLAN_OVERHEAD[peer.version]


async def probe_paths(peers: Mapping[HostLabel, Address], mtu: int, probe: Probe) -> Paths:
    """Return what an echo request to each peer finds, and a short one after it.

    The first is as long as the longest packet of its tunnel, by the MTU of pods.
    """
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    silent: list[HostLabel] = []

    async def fault(host: HostLabel, peer: Address) -> str:
        size = tunnel_size(peer, mtu)
        async with slots:
            try:
                if await probe(peer, size):
                    return ""
                if not await probe(peer, SHORT):
                    silent.append(host)
                    return ""
            except HostError as exc:
                return str(exc)
        return (
            f"packets of {size} bytes do not pass to {peer}, short ones do: raise the MTU of what "
            f"lies between, or start agents with a smaller --mtu"
        )

    faults = await asyncio.gather(*(fault(host, peer) for host, peer in peers.items()))
    found = {host: text for host, text in zip(peers, faults, strict=True) if text}
    return Paths(found, silent)


def by_host(what: str, faults: Mapping[HostLabel, str]) -> list[str]:
    """Return faults of tunnels or paths as the host's, in the order of the other hosts."""
    return [f"{what} to {host}: {fault}" for host, fault in sorted(faults.items())]
