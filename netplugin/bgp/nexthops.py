"""The MAC addresses of those that routes lead to: the BGP peer and the next hops it tells of.

In come the addresses wanted and what is heard of them (ARP, by `ofnet.packetin`); `ask` sends a
question. Unknown ones are asked for every second, known ones now and then, for another machine may
have taken the address over. Where not all can be asked for at once, those are that were not for the
longest time. Who is silent is not forgotten: whether it lives is BGP's business.
"""

import asyncio
from collections.abc import Callable, Mapping
from heapq import nsmallest
from ipaddress import IPv4Address
from typing import Final

EVERY: Final = 1.0
REFRESH: Final = 30
"""Rounds after which known addresses are asked for again."""
AT_ONCE: Final = 100
"""Questions in a round: a peer may tell of any number of next hops."""


class NextHops:
    """Who is wanted, and who is known."""

    def __init__(self, ask: Callable[[IPv4Address], None]) -> None:
        self._ask = ask
        self._wanted: frozenset[IPv4Address] = frozenset()
        self._macs: dict[IPv4Address, str] = {}
        self._asked: dict[IPv4Address, int] = {}
        self._news = asyncio.Event()

    @property
    def macs(self) -> Mapping[IPv4Address, str]:
        """The MAC addresses known of those that are wanted."""
        return self._macs

    @property
    def complete(self) -> bool:
        """Tell whether all that are wanted are known."""
        return self._wanted <= self._macs.keys()

    def want(self, addresses: frozenset[IPv4Address]) -> None:
        """Have these known, and no others."""
        if addresses != self._wanted:
            self._wanted = addresses
            self._macs = {one: mac for one, mac in self._macs.items() if one in addresses}
            self._asked = {one: when for one, when in self._asked.items() if one in addresses}
            self._news.set()

    def hear(self, address: IPv4Address, mac: str) -> bool:
        """Take over what somebody said of itself; tell whether that is wanted and new."""
        new = address in self._wanted and self._macs.get(address) != mac
        if new:
            self._macs[address] = mac
            self._news.set()
        return new

    async def known(self, address: IPv4Address) -> None:
        """Return when an address is known."""
        while address not in self._macs:
            self._news.clear()
            await self._news.wait()

    async def run(self) -> None:
        """Ask, for ever."""
        rounds = 0
        while True:
            rounds += 1
            for address in self._due(rounds):
                self._asked[address] = rounds
                self._ask(address)
            await asyncio.sleep(EVERY)

    def _due(self, rounds: int) -> list[IPv4Address]:
        """Return whom to ask for in this round."""

        def asked(address: IPv4Address) -> int:
            return self._asked.get(address, 0)

        again = rounds - REFRESH
        due = (one for one in self._wanted if one not in self._macs or asked(one) <= again)
        return nsmallest(AT_ONCE, due, key=asked)
