"""Who speaks BGP with whom: a host's own address and AS, and those of its peer (pure)."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Final

MAX_AS: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Peering:
    """A session to be; `router` is the host's own address, with the network the peer is on.

    Raises ValueError for numbers and addresses that no session can have.
    """

    router: IPv4Interface
    asn: int
    peer: IPv4Address
    peer_asn: int

    def __post_init__(self) -> None:
        if not (0 < self.asn <= MAX_AS and 0 < self.peer_asn <= MAX_AS):
            raise ValueError(f"an AS number is 1..{MAX_AS}")
        if self.peer not in self.router.network or self.peer == self.router.ip:
            raise ValueError(f"neighbor {self.peer} is no other address of {self.router.network}")

    @property
    def external(self) -> bool:
        """Tell whether the peer is of another AS (eBGP)."""
        return self.asn != self.peer_asn
