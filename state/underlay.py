"""The underlay: the addresses that hosts, masters and the store need for themselves. Pure.

In come the records of networks and the addresses of the underlay; out comes which network takes
which of them (`overlaps`). netmaster refuses such networks (`netmaster.plan.address_space`).
Where a host registers later than a network, master and agent name it as an error of that host.
"""

# The rule (ADR 32). A host routes the whole subnet of a vxlan network, and of an infra network, to
# its pods: there an address of the underlay may be nowhere in the subnet. Vlan networks are beside
# the hosts on the physical network, and may have its subnet: there it must not be in the range that
# is given to pods, and the router of the physical network may be the gateway.

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from core.addresses import IPV4_BITS, IPV6_BITS, Subnet, ipv4, ipv6
from core.ids import HostLabel, NetworkId
from state.records import Encap, HostRecord, NetworkRecord, NetworkType, ServiceInstance

Address = IPv4Address | IPv6Address

MOST_ADDRESSES: Final = 256
"""Further addresses, and next hops, that are read of one host or master."""


class AddressKind(StrEnum):
    """What an address of the underlay is."""

    CONTROL = "the control address"
    TUNNEL = "the tunnel address"
    FURTHER = "an address"
    NEXT_HOP = "a next hop"
    STORE = "the store's address"


@dataclass(frozen=True, slots=True)
class UnderlayAddress:
    """An address, what it is, and who has it (`host h2`, `master 192.168.77.254:9999`)."""

    address: Address
    kind: AddressKind
    holder: str
    host: HostLabel | None = None
    """The host, if it is one's."""

    @property
    def what(self) -> str:
        """Say what the address is, and whose."""
        return f"{self.kind} {'for' if self.kind is AddressKind.STORE else 'of'} {self.holder}"

    def __str__(self) -> str:
        return f"{self.address}, {self.what}"


@dataclass(frozen=True, slots=True)
class NetworkRange:
    """Addresses that a network takes: `what` names them.

    `free` is its gateway, where that may be the router of the physical network: a next hop.
    """

    what: str
    bits: int
    first: int
    last: int
    free: int | None = None


@dataclass(frozen=True, slots=True)
class UnderlayFinding:
    """A network takes an address of the underlay."""

    network: NetworkId
    part: str
    taken: UnderlayAddress

    def __str__(self) -> str:
        return f"{self.part} of network {self.network} holds {self.taken}"


def of_host(record: HostRecord) -> Iterator[UnderlayAddress]:
    """Yield the addresses of a host; text that is no address is passed over."""
    known = (
        (record.vtep_ips, AddressKind.TUNNEL),
        ((record.control_ip,), AddressKind.CONTROL),
        (record.addresses, AddressKind.FURTHER),
        (record.next_hops, AddressKind.NEXT_HOP),
    )
    for texts, kind in known:
        for address in _usable(texts):
            yield UnderlayAddress(address, kind, f"host {record.label}", record.label)


def faults_of(record: HostRecord) -> Iterator[str]:
    """Yield what is wrong with the addresses that a host names itself by."""
    named = (
        ("controlIP", record.control_ip),
        ("vtepIP", record.vtep_ip),
        ("vtepIP6", record.vtep_ip6),
    )
    for name, text in named:
        if text and usable(text) is None:
            yield f"its {name} {text} is no address at which other hosts could reach it"


def of_master(instance: ServiceInstance) -> Iterator[UnderlayAddress]:
    """Yield the addresses of a registered master, and of the store as it is configured there."""
    known = (
        ((instance.address,), AddressKind.CONTROL),
        (instance.addresses, AddressKind.FURTHER),
        (instance.next_hops, AddressKind.NEXT_HOP),
        (instance.store, AddressKind.STORE),
    )
    for texts, kind in known:
        for address in _usable(texts):
            yield UnderlayAddress(address, kind, f"master {instance.address}:{instance.port}")


class Underlay:
    """Addresses of the underlay, sorted: a look at one network costs what it finds."""

    def __init__(self, addresses: Iterable[UnderlayAddress]) -> None:
        found: dict[int, list[UnderlayAddress]] = {IPV4_BITS: [], IPV6_BITS: []}
        for one in addresses:
            found[one.address.max_prefixlen].append(one)
        # Whose address it is comes before whose next hop: that one is told.
        self._sorted = {
            bits: sorted(
                members, key=lambda one: (int(one.address), one.kind is AddressKind.NEXT_HOP)
            )
            for bits, members in found.items()
        }
        self._taken: dict[NetworkId, tuple[NetworkRecord, tuple[UnderlayFinding, ...]]] = {}

    def of_kind(self, kind: AddressKind) -> Iterator[UnderlayAddress]:
        """Yield the addresses of a kind."""
        for members in self._sorted.values():
            yield from (one for one in members if one.kind is kind)

    def taken_by(self, network: NetworkRecord) -> tuple[UnderlayFinding, ...]:
        """Return which addresses a network takes, once for each that has one.

        It is found once for each network: every endpoint that is made asks.
        """
        kept = self._taken.get(network.id)
        if kept is None or kept[0] is not network:
            kept = self._taken[network.id] = network, tuple(_of_network(network, self))
        return kept[1]

    def within(self, part: NetworkRange) -> Iterator[UnderlayAddress]:
        """Yield the addresses that a part of a network must not have, in their order."""
        among = self._sorted[part.bits]
        at = bisect_left(among, part.first, key=lambda one: int(one.address))
        while at < len(among) and int(among[at].address) <= part.last:
            one = among[at]
            if one.kind is not AddressKind.NEXT_HOP or int(one.address) != part.free:
                yield one
            at += 1


def parts(network: NetworkRecord) -> Iterator[NetworkRange]:
    """Yield what must not hold an address of the underlay. Raises ValueError."""
    beside = network.encap is Encap.VLAN and network.type is not NetworkType.INFRA
    if network.v4 is not None:
        yield from _parts4(network, network.v4, beside=beside)
    if network.v6 is not None:
        gateway6 = ipv6(network.ipv6_gateway) if beside and network.ipv6_gateway else None
        yield NetworkRange(
            f"subnet {network.v6}", IPV6_BITS, network.v6.base, network.v6.last, gateway6
        )


def _parts4(network: NetworkRecord, subnet: Subnet, *, beside: bool) -> Iterator[NetworkRange]:
    gateway = ipv4(network.gateway) if beside and network.gateway else None
    first, last = ipv4(network.first), ipv4(network.last)
    if beside and (network.bounded or last != subnet.last):
        yield NetworkRange(f"range {network.first}-{network.last}", IPV4_BITS, first, last, gateway)
        if gateway is not None and not first <= gateway <= last:
            yield NetworkRange(f"gateway {network.gateway}", IPV4_BITS, gateway, gateway, gateway)
    else:
        yield NetworkRange(f"subnet {subnet}", IPV4_BITS, subnet.base, subnet.last, gateway)


def overlaps(
    networks: Iterable[NetworkRecord],
    underlay: Underlay | Iterable[UnderlayAddress],
    given: Mapping[NetworkId, Set[Address]] | None = None,
) -> tuple[UnderlayFinding, ...]:
    """Return which network takes which address of the underlay, once for each that has it.

    `given` has the addresses that infra networks gave to hosts, which are theirs. A record whose
    addresses cannot be read takes none.
    """
    known = underlay if isinstance(underlay, Underlay) else Underlay(underlay)
    given = given or {}
    return tuple(
        finding
        for one in networks
        for finding in known.taken_by(one)
        if finding.taken.address not in given.get(one.id, ())
    )


def _of_network(network: NetworkRecord, underlay: Underlay) -> Iterator[UnderlayFinding]:
    try:
        taken = list(parts(network))
    except ValueError:
        return
    told: set[tuple[Address, str]] = set()
    for part in taken:
        for one in underlay.within(part):
            if (one.address, one.holder) not in told:
                told.add((one.address, one.holder))
                yield UnderlayFinding(network.id, part.what, one)


def usable(text: str) -> Address | None:
    """Return an address under which other machines can reach one; None for any other text."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    nowhere = (
        address.is_loopback,
        address.is_unspecified,
        address.is_multicast,
        address.is_link_local,
        int(address) == (1 << IPV4_BITS) - 1 and address.version == 4,
    )
    return None if any(nowhere) else address


def _usable(texts: Sequence[str]) -> Iterator[Address]:
    for text in texts[:MOST_ADDRESSES]:
        address = usable(text)
        if address is not None:
            yield address
