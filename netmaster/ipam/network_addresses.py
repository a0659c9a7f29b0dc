"""All addresses of one network, IPv4 and IPv6: its pools and its grants.

Grants may outlive their network's record: those of endpoints of a deleted infra network, and
reservations. The pools exist only while the network does.
"""

from core.addresses import ipv4, ipv6
from netmaster.ipam.pool import Pool
from netmaster.ipam.pool6 import Pool6
from netmaster.ipam.ranges import excluded
from netmaster.ipam.resting import NO_REST, Resting
from state.records import GrantOwner, GrantRecord, NetworkRecord


class NetworkAddresses:
    """Grants of a network by address text, and its pools.

    A pool is None without the network, and of a family that it has not.
    """

    __slots__ = ("_resting", "grants", "v4", "v6")

    def __init__(self, resting: Resting = NO_REST) -> None:
        self._resting = resting
        self.grants: dict[str, GrantRecord] = {}
        self.v4: Pool | None = None
        self.v6: Pool6 | None = None

    def open(self, network: NetworkRecord) -> None:
        """Create the pools of a network; addresses that are held already stay held."""
        self.v4 = _pool(network, self._resting)
        self.v6 = Pool6(network.v6, alone=self.v4 is None) if network.v6 else None
        self.exclude(network)
        for address in self.grants:
            self._take(address)
        self.resume()

    def exclude(self, network: NetworkRecord) -> None:
        """Take over what a network excludes; addresses that are held stay held."""
        ranges = excluded(network.exclude)
        if self.v4 is not None:
            self.v4.excluded = ranges.v4
        if self.v6 is not None:
            self.v6.excluded = ranges.v6

    def close(self) -> None:
        """Drop the pools of a deleted network."""
        self.v4 = self.v6 = None

    def grant(self, address: str, grant: GrantRecord) -> None:
        """Add or replace the grant of an address."""
        if address not in self.grants:
            self._take(address)
        self.grants[address] = grant

    def release(self, address: str) -> None:
        """Remove the grant of an address."""
        del self.grants[address]
        if ":" in address:
            if self.v6 is not None:
                self.v6.release(ipv6(address))
        elif self.v4 is not None:
            self.v4.release(ipv4(address))

    def resume(self) -> None:
        """Continue the allocation of IPv6 addresses after the newest grant."""
        given = [
            (grant.seq, address)
            for address, grant in self.grants.items()
            if ":" in address and grant.owner is not GrantOwner.GATEWAY
        ]
        if given and self.v6 is not None:
            self.v6.resume(ipv6(max(given)[1]))

    def _take(self, address: str) -> None:
        if ":" in address:
            if self.v6 is not None:
                self.v6.take(ipv6(address))
        elif self.v4 is not None:
            self.v4.take(ipv4(address))


def _pool(network: NetworkRecord, resting: Resting) -> Pool | None:
    subnet = network.v4
    if subnet is None:
        return None
    last = ipv4(network.last)
    bounded = network.bounded or last != subnet.last
    # A subnet written with host bits (10.1.1.77/24) is assignable from its start.
    return Pool(subnet, ipv4(network.first) if bounded else subnet.base, last, resting)
