"""This host's record for the cluster, with its addresses and next hops as of now.

In comes the record as `netplugin.masters.registration` made it; the addresses are followed, so that
netmaster refuses networks that take one (`state.underlay`). `netplugin.masters.label_claim` writes
the record whenever the store has another one. Links of the agent itself are left out: what they
have is of its networks.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from core.change_notifier import each_change
from core.errors import HostError
from core.retry import Loop, retry
from daemons import machine_addresses
from netplugin.ovsdb import Ovsdb
from netplugin.world.bridges import port_names
from state.records import HostRecord

log = logging.getLogger(__name__)

_OWN_LINKS: Final = ("contiv", port_names.ROUTER_PORT, *port_names.POD_LINKS)
_SERVICE_LINK: Final = "kube-ipvs"
"""Where kube-proxy keeps the addresses of all services, thousands in a large cluster."""


class OwnRecord:
    """The record of this host."""

    def __init__(self, record: HostRecord, ovsdb: Ovsdb) -> None:
        self._record = record
        self._ovsdb = ovsdb
        self._loop = Loop(
            log, "addresses of this host not read", about="for its record", errors=HostError
        )

    def current(self) -> HostRecord:
        """Return the record as of the last look."""
        return self._record

    async def look(self) -> None:
        """Read the addresses and next hops, as soon as that is possible; the last ones stay."""
        await retry(self._loop, self._look)

    async def _look(self) -> None:
        found = await asyncio.to_thread(machine_addresses.read, self._is_of_agent)
        self._record = replace(self._record, addresses=found.addresses, next_hops=found.next_hops)

    async def follow(self, changed: Callable[[], asyncio.Event], interval: float) -> None:
        """Look after each change of an address, and now and then for routes, for ever."""
        async for _ in each_change(changed, interval):
            await self.look()

    def _is_of_agent(self, link: str) -> bool:
        # The underlay's address may be on a bridge of Open vSwitch, too: that has no endpoint.
        row = self._ovsdb.ports().get(link)
        of_endpoint = row is not None and port_names.ENDPOINT_ID in row.external_ids
        return of_endpoint or link.startswith((*_OWN_LINKS, _SERVICE_LINK))
