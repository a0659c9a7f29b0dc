"""Resolves next hops to MAC addresses: the BGP peer and the next hops of its routes.

In come the addresses wanted and what ARP and ND said (`ofnet.packets.packetin`); `send_request`
sends an ARP or ND request. An unresolved address is requested in every round, a resolved one now
and then, since another machine may have taken the address over. Where not all can be requested at
once, those requested longest ago come first. An address that no longer answers stays resolved: BGP
decides whether a router is alive.
"""

import asyncio
from collections.abc import Callable, Mapping
from heapq import nsmallest
from ipaddress import IPv4Address, IPv6Address
from typing import Final

Address = IPv4Address | IPv6Address

INTERVAL: Final = 1.0
"""Seconds between rounds of requests."""
REFRESH: Final = 30
"""Rounds after which a resolved address is requested again."""
AT_ONCE: Final = 100
"""Requests in one round: a peer may announce any number of next hops."""


class NextHops:
    """The wanted addresses and the MAC addresses of those resolved."""

    def __init__(
        self, send_request: Callable[[Address], None], *, interval: float = INTERVAL
    ) -> None:
        self._send_request = send_request
        self._interval = interval
        self._wanted: frozenset[Address] = frozenset()
        self._macs: dict[Address, str] = {}
        self._requested: dict[Address, int] = {}
        self._changed = asyncio.Event()

    @property
    def macs(self) -> Mapping[Address, str]:
        """The MAC addresses of the wanted addresses that are resolved."""
        return self._macs

    @property
    def complete(self) -> bool:
        """True when all wanted addresses are resolved."""
        return self._wanted <= self._macs.keys()

    def want(self, addresses: frozenset[Address]) -> None:
        """Resolve these addresses and no others."""
        if addresses != self._wanted:
            self._wanted = addresses
            self._macs = {one: mac for one, mac in self._macs.items() if one in addresses}
            self._requested = {
                one: round_ for one, round_ in self._requested.items() if one in addresses
            }
            self._changed.set()

    def put(self, address: Address, mac: str) -> bool:
        """Put what ARP or ND said; return True if the address is wanted and its MAC is new."""
        # Only wanted addresses are kept: the network of the uplink is not trusted, and a sender
        # must not be able to fill this table.
        new = address in self._wanted and self._macs.get(address) != mac
        if new:
            self._macs[address] = mac
            self._changed.set()
        return new

    async def wait_for(self, address: Address) -> None:
        """Return when an address is resolved."""
        while address not in self._macs:
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Send requests for ever."""
        rounds = 0
        while True:
            rounds += 1
            for address in self._due(rounds):
                self._requested[address] = rounds
                self._send_request(address)
            await asyncio.sleep(self._interval)

    def _due(self, rounds: int) -> list[Address]:
        """Return the addresses to request in this round."""

        def requested(address: Address) -> int:
            return self._requested.get(address, 0)

        refresh = rounds - REFRESH
        due = (one for one in self._wanted if one not in self._macs or requested(one) <= refresh)
        return nsmallest(AT_ONCE, due, key=requested)
