"""Hosts that hold addresses ahead of their endpoints, each for some of the clients.

In come masters and what the host's clients have; out come addresses that no master was asked for.
The rules are the agent's own (`netplugin.masters.address_blocks`); what an agent has in its journal
is `endpoints` here.
"""

import asyncio
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from core.errors import ContivError
from core.ids import HostLabel, NetworkId
from core.retry import Pace
from netplugin.masters.address_blocks import AddressBlocks, HeldAddress
from tests.system.faults.web import Web

PAUSE: Final = 0.3
"""Seconds, at most, between two requests of a host."""


class Holder:
    """One host; `size` addresses of each network are to be free."""

    def __init__(
        self, label: HostLabel, size: int, masters: Sequence[str], web: Web, chance: Random
    ) -> None:
        self.label = label
        self.given = 0
        self._masters = masters
        self._web = web
        self._chance = chance
        self._blocks = AddressBlocks(size, time.monotonic)
        self._endpoints: dict[str, tuple[NetworkId, str, str]] = {}

    def give(self, network: str, name: str) -> HeldAddress | None:
        """Return an address for a new endpoint; None if a master has to be asked."""
        nid = NetworkId(f"{network}.default")
        given = self._blocks.give(nid)
        if given is not None:
            self.given += 1
            self._endpoints[name] = nid, given.ipv4, given.ipv6
        return given

    def ended(self, name: str) -> None:
        """Take note that a master released an endpoint, or does not know it."""
        self._endpoints.pop(name, None)

    async def run(self) -> None:
        """Renew for ever, and disturb the order of things by doing it often."""
        while True:
            await asyncio.sleep(self._chance.uniform(0, PAUSE))
            await self._renew()

    async def give_back(self) -> None:
        """Give back all that no endpoint has."""
        self._blocks = AddressBlocks(0, time.monotonic)
        for pause in Pace(PAUSE, PAUSE).pauses():
            if await self._renew():
                return
            await asyncio.sleep(pause)

    async def _renew(self) -> bool:
        asked_at = time.monotonic()
        asked = self._blocks.request(self._endpoints.values())
        url = self._chance.choice(self._masters)
        try:
            answer = await self._web.renew(url, self.label, asked)
        except ContivError:
            return False
        self._blocks.answered(asked_at, answer, self._endpoints.values())
        return answer.renewed
