"""The routes received from the peer (the Adj-RIB-In of RFC 4271). Pure.

In come UPDATEs; out come prefixes with their next hops. Whether a next hop is reachable is for
`netplugin.bgp.nexthops` to find out.
"""

from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_network
from typing import Final

from ofnet.bgp.messages import (
    CEASE,
    TOO_MANY_PREFIXES,
    Address,
    Family,
    MalformedBgp,
    Prefix,
    Update,
)
from ofnet.bgp.peering import Peering

MAX_ROUTES: Final = 10_000
"""Routes above which the session is ended: each one is a flow on this host."""

_NO_DESTINATIONS: Final = tuple(
    map(
        ip_network,
        ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/127", "fe80::/10", "ff00::/8"),
    )
)
"""Loopback, link-local, multicast and unspecified addresses, of both families."""


class Rib:
    """The routes of one peer."""

    # Graceful restart (RFC 4724). When the session is lost and the peer had announced restarts, its
    # routes stay but become stale: the peer still forwards packets. After the next session is up,
    # each announced route loses the mark, and the End-of-RIB marker or a time-out removes what is
    # still stale. A second loss before that removes stale routes first, so a route that the peer
    # never sends again cannot live on from restart to restart.

    def __init__(self, peering: Peering, limit: int = MAX_ROUTES) -> None:
        self._peering = peering
        self._limit = limit
        self._routes: dict[Prefix, Address] = {}
        self._stale: set[Prefix] = set()

    @property
    def routes(self) -> Mapping[Prefix, Address]:
        """The next hop of each prefix."""
        return self._routes

    def apply(self, update: Update) -> None:
        """Apply an UPDATE; a route that cannot be used counts as withdrawn.

        Raises MalformedBgp when the peer has announced more routes than allowed.
        """
        self._drop(update.withdrawn)
        for prefix, hop in update.announced:
            if not self._usable(update, hop):
                self._drop([prefix])
            elif not any(_within(prefix, never) for never in _NO_DESTINATIONS):
                self._routes[prefix] = hop
                self._stale.discard(prefix)
        if len(self._routes) > self._limit:
            raise MalformedBgp(f"more than {self._limit} routes", CEASE, TOO_MANY_PREFIXES)

    def mark_stale(self, families: Collection[Family]) -> None:
        """Mark the routes of the families stale; remove all others and those stale already.

        (RFC 4724, 4.2.)
        """
        self._stale |= {prefix for prefix in self._routes if Family.of(prefix) not in families}
        self.drop_stale()
        self._stale = set(self._routes)

    def drop_stale(self, families: Collection[Family] = tuple(Family)) -> bool:
        """Remove the stale routes of the families; return whether there were any."""
        gone = {prefix for prefix in self._stale if Family.of(prefix) in families}
        self._drop(gone)
        return bool(gone)

    def clear(self) -> bool:
        """Remove all routes; return whether there were any."""
        self._stale = set(self._routes)
        return self.drop_stale()

    def _usable(self, update: Update, hop: Address) -> bool:
        """Return whether a route has no AS loop, and a next hop that is another host."""
        if self._peering.asn in update.as_path:
            return False
        return hop not in self._peering.addresses and not (
            hop.is_unspecified or hop.is_multicast or hop.is_loopback
        )

    def _drop(self, prefixes: Iterable[Prefix]) -> None:
        for prefix in prefixes:
            self._routes.pop(prefix, None)
            self._stale.discard(prefix)


def _within(prefix: Prefix, other: Prefix) -> bool:
    return prefix.version == other.version and prefix.subnet_of(other)  # type: ignore[arg-type]
