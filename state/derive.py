"""Values that are computed instead of stored: allocation lists, counters, tags in use (ADR 18).

Pure functions from records and plain addresses to the values in REST replies. Lists have the
original's form `a-b, c`: whole runs as one item, ascending (docs/original/netmaster-state.md §5).
IPv4 only; the original lists no IPv6 addresses.
"""

# Why computed: each value follows from the grants and records. A stored copy must change with every
# endpoint, in the same transaction, and a crash between two writes would leave it wrong for good.
#
# All lists are intervals: a /8 network has 16 million addresses, and a set of them per request
# would cost seconds. The functions below merge, cut and complement runs of whole numbers instead.

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from core.addresses import IPV4_BITS, ipv4, ipv4_text, parse_span
from state.creation import is_bounded
from state.records import GrantOwner, GrantRecord, NetworkRecord

Span = tuple[int, int]
"""First and last of a run of whole numbers."""


@dataclass(frozen=True, slots=True)
class AddressLists:
    """`allocatedIPAddresses` and `availableIPAddresses`; "" if there are none."""

    allocated: str
    available: str


def network_addresses(
    network: NetworkRecord, granted: Iterable[str], pools: Iterable[str] = ()
) -> AddressLists:
    """Return a network's lists from its granted addresses and its groups' pools (`a-b`).

    All addresses of a pool, and those that the network excludes, count as allocated. Addresses
    outside the network's range are not shown as allocated, and are not available if the network is
    bounded.
    """
    if network.v4 is None:
        return AddressLists("", "")
    usable = (network.v4.base + 1, network.v4.last - 1)
    written = (ipv4(network.first), ipv4(network.last))
    taken = [*(pool_span(pool) for pool in pools), *_excluded(network.exclude)]
    if network.gateway:
        taken.append((ipv4(network.gateway),) * 2)
    runs = _merged([*_runs(_ipv4(granted)), *taken])
    shown = _clip(runs, _overlap(usable, written))
    assignable = _overlap(usable, written) if is_bounded(network) else usable
    return AddressLists(_addresses(shown), _addresses(_gaps(runs, assignable)))


def group_addresses(pool: str, granted: Iterable[str], exclude: Iterable[str] = ()) -> AddressLists:
    """Return a group's lists from its pool and its network's granted addresses; "" if no pool.

    What is excluded counts as allocated.
    """
    if not pool:
        return AddressLists("", "")
    bounds = pool_span(pool)
    taken = _merged([*_runs(_ipv4(granted)), *_excluded(exclude)])
    return AddressLists(_addresses(_clip(taken, bounds)), _addresses(_gaps(taken, bounds)))


def address_count(grants: Iterable[GrantRecord]) -> int:
    """Return `allocatedAddressesCount` of a network: all grants except those of its gateways."""
    return sum(grant.owner is not GrantOwner.GATEWAY for grant in grants)


def number_list(numbers: Iterable[int]) -> str:
    """Return `1, 5-9` for whole numbers in any order."""
    return ", ".join(_item(str(first), str(last)) for first, last in _runs(numbers))


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Return labels as Go prints a map: `map[app:web tier:front]`."""
    if not labels:
        return "map[]"
    return "map[" + " ".join(f"{name}:{value}" for name, value in sorted(labels.items())) + "]"


def pool_span(pool: str) -> Span:
    """Return first and last address of a pool written `a-b` or `a`, as whole numbers."""
    first, _, last = pool.partition("-")
    return ipv4(first), ipv4(last or first)


def _excluded(texts: Iterable[str]) -> Iterator[Span]:
    """Yield the spans of IPv4 of an `exclude`."""
    for first, last, bits in map(parse_span, texts):
        if bits == IPV4_BITS:
            yield first, last


def _runs(numbers: Iterable[int]) -> Iterator[Span]:
    """Yield the runs of whole numbers, ascending."""
    ordered = sorted(numbers)
    if not ordered:
        return
    first = last = ordered[0]
    for number in ordered:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _merged(spans: Iterable[Span]) -> list[Span]:
    runs: list[Span] = []
    for first, last in sorted(spans):
        # Adjacent runs are merged too: the original writes `1-3`, not `1, 2-3`.
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return runs


def _clip(runs: Iterable[Span], bounds: Span) -> Iterator[Span]:
    for run in runs:
        first, last = _overlap(run, bounds)
        if first <= last:
            yield first, last


def _gaps(runs: Iterable[Span], bounds: Span) -> Iterator[Span]:
    start = bounds[0]
    for first, last in _clip(runs, bounds):
        if start < first:
            yield start, first - 1
        start = last + 1
    if start <= bounds[1]:
        yield start, bounds[1]


def _overlap(one: Span, other: Span) -> Span:
    return max(one[0], other[0]), min(one[1], other[1])


def _addresses(runs: Iterable[Span]) -> str:
    return ", ".join(_item(ipv4_text(first), ipv4_text(last)) for first, last in runs)


def _item(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _ipv4(addresses: Iterable[str]) -> list[int]:
    return [ipv4(address) for address in addresses if ":" not in address]
