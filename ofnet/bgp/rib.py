"""What the peer told of routes, as it stands (the Adj-RIB-In of RFC 4271). Pure.

Updates come in, prefixes with their next hops are kept. Whether a next hop can be reached is not
asked here. Routes of a peer that is away for a restart are stale: they hold until it has told all
again (RFC 4724).
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from ofnet.bgp.messages import CEASE, TOO_MANY_PREFIXES, MalformedBgp, Update
from ofnet.bgp.peering import Peering

MAX_ROUTES: Final = 10_000
"""More are not for a host; each one is a flow."""

_NO_DESTINATIONS: Final = tuple(map(IPv4Network, ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))


class Rib:
    """The routes of one peer."""

    def __init__(self, peering: Peering, limit: int = MAX_ROUTES) -> None:
        self._peering = peering
        self._limit = limit
        self._routes: dict[IPv4Network, IPv4Address] = {}
        self._stale: set[IPv4Network] = set()

    @property
    def routes(self) -> Mapping[IPv4Network, IPv4Address]:
        """The next hop of each prefix."""
        return self._routes

    def apply(self, update: Update) -> None:
        """Take over an update; what cannot be used counts as taken back.

        Raises Malformed when the peer tells of more routes than there may be.
        """
        self._drop(update.withdrawn)
        hop = update.next_hop
        if hop is None or not self._usable(update, hop):
            self._drop(update.announced)
            return
        for prefix in update.announced:
            if not any(prefix.subnet_of(never) for never in _NO_DESTINATIONS):
                self._routes[prefix] = hop
                self._stale.discard(prefix)
        if len(self._routes) > self._limit:
            raise MalformedBgp(f"more than {self._limit} routes", CEASE, TOO_MANY_PREFIXES)

    def expect_again(self) -> None:
        """Have all routes hold until the peer has told all again, but for those that do so already.

        A peer that is lost again before it has told a route goes without it (RFC 4724, 4.2).
        """
        self.drop_stale()
        self._stale = set(self._routes)

    def drop_stale(self) -> bool:
        """Forget what was not told again; tell whether there was anything."""
        gone, self._stale = self._stale, set()
        self._drop(gone)
        return bool(gone)

    def clear(self) -> bool:
        """Forget everything; tell whether there was anything."""
        self._stale = set(self._routes)
        return self.drop_stale()

    def _usable(self, update: Update, hop: IPv4Address) -> bool:
        """Tell whether a route does not come back to its origin, and leads to somebody else."""
        if self._peering.asn in update.as_path:
            return False
        return hop != self._peering.router.ip and not (
            hop.is_unspecified or hop.is_multicast or hop.is_loopback
        )

    def _drop(self, prefixes: Iterable[IPv4Network]) -> None:
        for prefix in prefixes:
            self._routes.pop(prefix, None)
            self._stale.discard(prefix)
