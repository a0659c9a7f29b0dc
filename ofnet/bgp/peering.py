"""The two ends of a BGP session: addresses and AS of this host and of its peer. Pure."""

import hashlib
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Final

MAX_AS: Final = 0xFFFF_FFFF
_IDENTIFIERS: Final = range(0x0100_0000, 0x7F00_0000)
"""What is taken for identifiers: no router refuses one of them."""

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Peering:
    """The configuration of a session, which is by the family of the peer's address.

    `router` and `router6` are this host's addresses on the peer's network; there is that of the
    peer's family at least. `link_local` is this host's link-local address there; without one the
    session is about IPv4 alone.
    Raises ValueError for an AS number or an address that no session can have.
    """

    asn: int
    peer: Address
    peer_asn: int
    router: IPv4Interface | None = None
    router6: IPv6Interface | None = None
    link_local: IPv6Address | None = None

    def __post_init__(self) -> None:
        if not (0 < self.asn <= MAX_AS and 0 < self.peer_asn <= MAX_AS):
            raise ValueError(f"an AS number is 1..{MAX_AS}")
        if self.router6 is not None and not _is_global(self.router6.ip):
            raise ValueError(f"router address {self.router6.ip} is none that a peer could reach")
        own = self._interface()
        if self.peer not in own.network or self.peer == own.ip:
            raise ValueError(f"neighbor {self.peer} is no other address of {own.network}")

    @property
    def external(self) -> bool:
        """Return whether the peer is in another AS (eBGP)."""
        return self.asn != self.peer_asn

    @property
    def own(self) -> Address:
        """Return this host's end of the session."""
        return self._interface().ip

    @property
    def addresses(self) -> frozenset[Address]:
        """Return all addresses of this host on the peer's network."""
        interfaces = (one.ip for one in (self.router, self.router6) if one is not None)
        return frozenset((*interfaces, *self.hops6))

    @property
    def hops6(self) -> tuple[IPv6Address, ...]:
        """Return the next hop of IPv6: a global address, a link-local one, or both (RFC 2545)."""
        own = self.router6.ip if self.router6 is not None else None
        return tuple(one for one in (own, self.link_local) if one is not None)

    @property
    def router_id(self) -> IPv4Address:
        """Return this host's BGP identifier (RFC 6286)."""
        return router_id(self.router, self.router6)

    def _interface(self) -> IPv4Interface | IPv6Interface:
        own = self.router if self.peer.version == 4 else self.router6
        if own is None:
            raise ValueError(
                f"neighbor {self.peer} needs a router address of IPv{self.peer.version}"
            )
        return own


def router_id(router: IPv4Interface | None, router6: IPv6Interface | None) -> IPv4Address:
    """Return the identifier of a host with these addresses: the one of IPv4, or made of the other.

    Two hosts have the same one by one chance in two billion, which matters inside an AS alone.
    """
    if router is not None:
        return router.ip
    mixed = hashlib.sha256(router6.ip.packed if router6 is not None else b"").digest()
    return IPv4Address(_IDENTIFIERS[int.from_bytes(mixed[:8], "big") % len(_IDENTIFIERS)])


def _is_global(address: IPv6Address) -> bool:
    """Return whether an address is one of a host, and of more than one link."""
    nowhere = (
        address.is_link_local,
        address.is_multicast,
        address.is_loopback,
        address.is_unspecified,
        address.ipv4_mapped is not None,
    )
    return not any(nowhere)
