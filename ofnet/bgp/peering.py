"""The two ends of a BGP session: address and AS of this host and of its peer. Pure."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address
from typing import Final

MAX_AS: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Peering:
    """The configuration of a session; `router` is this host's address on the peer's network.

    `next_hop6` is this host's link-local address there, the next hop of its IPv6 pods; without one
    the session is about IPv4 alone.
    Raises ValueError for an AS number or an address that no session can have.
    """

    router: IPv4Interface
    asn: int
    peer: IPv4Address
    peer_asn: int
    next_hop6: IPv6Address | None = None

    def __post_init__(self) -> None:
        if not (0 < self.asn <= MAX_AS and 0 < self.peer_asn <= MAX_AS):
            raise ValueError(f"an AS number is 1..{MAX_AS}")
        if self.peer not in self.router.network or self.peer == self.router.ip:
            raise ValueError(f"neighbor {self.peer} is no other address of {self.router.network}")

    @property
    def external(self) -> bool:
        """Return whether the peer is in another AS (eBGP)."""
        return self.asn != self.peer_asn
