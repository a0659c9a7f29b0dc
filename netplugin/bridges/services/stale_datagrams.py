"""Ends what connection tracking remembers of datagrams whose way has changed.

The kernel translates by rules the first datagram between two ends, and all that follow by the entry
it made then. A client that sends without a pause keeps its entry: its datagrams go to a provider
that is gone, and to the stranger who has the address next. In come the ways of datagrams as the
rules have them now (`netplugin.bridges.services.service_rules`,
`netplugin.pods.host_port_mappings.mapping_rules`), once they are set; entries that lead elsewhere
are deleted (`netplugin.kernel.conntrack`), and the next datagram takes the new way. kube-proxy and
portmap do the same. TCP is left alone: its connections end by themselves, and those to a provider
that terminates are to go on.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from core.errors import HostError
from core.logs import fields
from core.retry import Loop
from netplugin.kernel import conntrack
from netplugin.kernel.conntrack import Datagrams, End
from netplugin.kernel.firewall.families import FAMILIES
from netplugin.kernel.netlink import requests as netlink

log = logging.getLogger(__name__)

Address = IPv4Address | IPv6Address

_PAUSE: Final = 5.0
"""Seconds after which entries are looked at again where no way has changed."""
_ANYWHERE: Final = b""
"""In the place of an address: every address of the host."""
_LEADS: Final = re.compile(r"(?:-d (\S+)/\d+ )?-p udp -m udp --dport (\d+) ")


@dataclass(slots=True)
class Ways:
    """Where datagrams to an address and port are led: to any of some ends."""

    ends: dict[End, frozenset[End]] = field(default_factory=dict)
    """An address of b"" is every one of this host."""

    def lead(self, address: Address | None, port: int, ends: Iterable[tuple[Address, int]]) -> None:
        """Note that datagrams to an address, or to any of the host, are led to some ends."""
        at = address.packed if address is not None else _ANYWHERE, port
        more = frozenset((end.packed, number) for end, number in ends)
        self.ends[at] = self.ends.get(at, frozenset()) | more


def stale(
    one: Datagrams,
    ways: Mapping[End, frozenset[End]],
    former: Collection[End],
    local: Collection[bytes],
) -> bool:
    """Tell whether an entry leads elsewhere than datagrams are led now.

    `former` are the places that were led from until now, `local` the addresses of this host. An
    entry that leads nowhere else began before the rules; one from another place is not ours.
    """
    led = one.answered_by != one.sent_to
    address, port = one.sent_to
    ends = ways.get(one.sent_to)
    if ends is None and (led or address in local):
        ends = ways.get((_ANYWHERE, port))
    if ends is not None:
        return one.answered_by not in ends
    return led and (one.sent_to in former or (_ANYWHERE, port) in former)


SweepDatagrams = Callable[[Mapping[End, frozenset[End]], Collection[End]], int]
"""See `sweep`; tests pass others."""


def sweep(ways: Mapping[End, frozenset[End]], former: Collection[End]) -> int:
    """Delete the stale entries of this host; return how many there were. Raises HostError."""
    local = {address.packed for _, address in netlink.held_addresses()}
    doomed = [
        one
        for version in FAMILIES
        for one in conntrack.entries(version)
        if stale(one, ways, former, local)
    ]
    conntrack.delete(doomed)
    return len(doomed)


class StaleDatagrams:
    """The ways of datagrams by who makes their rules. One per agent."""

    def __init__(
        self,
        sweep: SweepDatagrams = sweep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sweep = sweep
        self._clock = clock
        self._ways: dict[str, dict[End, frozenset[End]]] = {}
        self._former: set[End] = set()
        self._swept = -_PAUSE
        self._lock = asyncio.Lock()
        self._loop = Loop(log, "datagrams not led anew", errors=HostError)

    def remember(self, rules: Iterable[str]) -> None:
        """Note what rules lead from that an earlier run of the agent left."""
        for rule in rules:
            if (found := _LEADS.match(rule)) is not None:
                address = ip_address(found[1]).packed if found[1] else _ANYWHERE
                self._former.add((address, int(found[2])))

    async def follow(self, owner: str, ways: Ways) -> None:
        """End what leads elsewhere, once the rules of one owner are set.

        What cannot be ended is a fault of the host, and tried again when rules are next set.
        """
        async with self._lock:
            before = self._ways.get(owner, {})
            self._former |= before.keys()
            self._ways[owner] = ways.ends
            if not ways.ends and not self._former:
                return
            # Rules may be set many times a minute, for reasons that are none of datagrams.
            if before == ways.ends and self._clock() - self._swept < _PAUSE:
                return
            self._swept = -_PAUSE
            try:
                ended = await asyncio.to_thread(self._sweep, self._merged(), self._former)
            except HostError as exc:
                self._loop.failed(exc)
                return
            self._loop.succeeded()
            self._swept = self._clock()
            self._former.clear()
            if ended:
                log.info("datagrams led anew", extra=fields(count=ended))

    def _merged(self) -> dict[End, frozenset[End]]:
        merged: dict[End, frozenset[End]] = {}
        for one in self._ways.values():
            for place, ends in one.items():
                merged[place] = merged.get(place, frozenset()) | ends
        return merged
