"""The subnets of networks, of both families: finds those that a new subnet would overlap.

Networks with their subnets as text come in, keys of networks go out. Subnets of one tenant must not
overlap, and those of vlan networks of all tenants must not where these are routed. `netmaster.view`
keeps `SubnetClaims` in sync with the networks; `netmaster.plan.objects.network` and
`netmaster.plan.address_space` refuse overlaps.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from contivmodel.objects import Network
from core.addresses import AddressRange, Subnet, ipv6, ipv6_text, parse_range, parse_subnet6
from netmaster.ipam.intervals import Interval, Intervals


@dataclass(frozen=True, slots=True)
class Claim:
    """The subnets of a network, one at least; `text6` is its IPv6 subnet's address as written.

    Text whose host bits are not zero is made canonical.
    """

    v4: AddressRange | None
    v6: Subnet | None = None
    text6: str = ""

    @property
    def subnets(self) -> Iterator[Subnet]:
        """The whole subnets, IPv4 first."""
        return filter(None, (self.v4.subnet if self.v4 else None, self.v6))


class Overlaps(NamedTuple):
    """Keys of the networks that overlap a claim, by family."""

    v4: frozenset[str]
    v6: frozenset[str]


def claim(network: Network) -> Claim:
    """Return the claim of a network; ValueError, in the original's words, for invalid text."""
    v4 = None
    if network.subnet or not network.ipv6_subnet:
        try:
            v4 = parse_range(network.subnet)
        except ValueError as exc:
            raise ValueError("subnet string invalid format") from exc
    if not network.ipv6_subnet:
        return Claim(v4)
    try:
        v6, written = parse_subnet6(network.ipv6_subnet)
    except ValueError as exc:
        raise ValueError("ipv6Subnet string invalid format") from exc
    return Claim(v4, v6, written if ipv6(written) == v6.base else ipv6_text(v6.base))


class SubnetClaims:
    """The claims of all networks, by tenant."""

    def __init__(self) -> None:
        self._v4: defaultdict[str, Intervals] = defaultdict(Intervals)
        self._v6: defaultdict[str, Intervals] = defaultdict(Intervals)
        self._vlan4, self._vlan6 = Intervals(), Intervals()
        """The whole subnets of vlan networks, of all tenants."""

    def add(self, network: Network) -> None:
        """Add the claim of a network; ValueError for invalid text."""
        for intervals, interval in self._parts(network):
            intervals.add(interval, network.key)

    def remove(self, network: Network) -> None:
        """Remove the claim of a network."""
        for intervals, interval in self._parts(network):
            intervals.remove(interval, network.key)

    def overlapping(self, tenant: str, wanted: Claim) -> Overlaps:
        """Return the networks of a tenant that a claim would overlap."""
        v4 = self._v4[tenant].overlapping(wanted.v4.extent) if wanted.v4 else ()
        v6 = self._v6[tenant].overlapping(_extent(wanted.v6)) if wanted.v6 else ()
        return Overlaps(v4=frozenset(v4), v6=frozenset(v6))

    def of_other_tenants(self, tenant: str, v4: Subnet | None, v6: Subnet | None) -> frozenset[str]:
        """Return the vlan networks of other tenants with addresses of a subnet, ranges or not."""
        found = {
            *(self._vlan4.overlapping(_extent(v4)) if v4 else ()),
            *(self._vlan6.overlapping(_extent(v6)) if v6 else ()),
        }
        return frozenset(key for key in found if key.partition(":")[0] != tenant)

    def _parts(self, network: Network) -> Iterator[tuple[Intervals, Interval]]:
        claimed = claim(network)
        if network.encap == "vlan":
            if claimed.v4:
                yield self._vlan4, _extent(claimed.v4.subnet)
            if claimed.v6:
                yield self._vlan6, _extent(claimed.v6)
        if claimed.v4:
            yield self._v4[network.tenant_name], claimed.v4.extent
        if claimed.v6:
            yield self._v6[network.tenant_name], _extent(claimed.v6)


def _extent(subnet: Subnet) -> Interval:
    return subnet.base, subnet.last
