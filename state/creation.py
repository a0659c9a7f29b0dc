"""Values at creation of what the original updates continuously and this code writes once (pure).

Allocation bitmaps of networks and groups, and the VLAN/VXLAN resource records (ADR 18).
`state.codec` puts them into JSON. `state.derive` computes the true values.
"""

import ipaddress
from typing import Final

from core.collections import bitset
from core.collections.bitset import BitSet
from core.errors import Invalid
from core.numbers import bounded
from state.records import GroupRecord, NetworkRecord

MAP_LIMIT: Final = 1 << 20
"""Longest stored bitmap in bits. That of a /8 would exceed etcd's limit for one request."""

_GREATEST: Final = 10**20 - 1

VLANS: Final = 4096
VXLANS: Final = 16384
LOCAL_VLANS: Final = "1-4094"


def network_map(network: NetworkRecord) -> BitSet:
    """Return a new network's allocation map: unassignable addresses and the gateway.

    Unassignable are the network address, the broadcast address and, for a bounded network, the
    addresses outside its range. Maps of subnets wider than /12 are cut to `MAP_LIMIT`.
    """
    if not network.subnet:
        return BitSet()
    size = 1 << 32 - network.subnet_len
    bits = bitset.span(0, 0, size) | bitset.span(size - 1, size - 1, size)
    subnet = _number(network.subnet)
    gateway = _number(network.gateway) - subnet if network.gateway else -1
    if 0 <= gateway < size:
        bits |= bitset.span(gateway, gateway, size)
    if is_bounded(network):
        first, last = _number(network.first) - subnet, _number(network.last) - subnet
        bits |= bitset.span(first, last, size).inverted()
    return bits.cut(MAP_LIMIT)


def is_bounded(network: NetworkRecord) -> bool:
    """Return whether IPv4 addresses outside first..last are never assigned."""
    if not network.subnet:
        return False
    return network.bounded or network.last != last_address(network.subnet, network.subnet_len)


def bounded_by_map(first: int, taken: BitSet) -> bool:
    """Return whether a map marks all hosts below number `first` as used.

    It identifies a range that ends with its subnet: `first`..`last` alone could also be a subnet
    written with host bits.
    """
    below = bitset.span(1, first - 1, taken.length)
    return bool(below.bits) and below.bits & taken.bits == below.bits


def group_map(group: GroupRecord) -> BitSet:
    """Return a new group's allocation map: all addresses but its pool; empty without a pool."""
    if not group.ip_pool:
        return BitSet()
    size = 1 << 32 - group.subnet_len
    first, _, last = group.ip_pool.partition("-")
    mask = size - 1
    pool = bitset.span(_number(first) & mask, _number(last or first) & mask, size)
    return pool.inverted().cut(MAP_LIMIT)


def ipv6_map(network: NetworkRecord) -> dict[str, bool] | None:
    """Return a new network's IPv6 allocation map: the gateway's host number, if there is one."""
    if not network.ipv6_gateway:
        return None
    gateway = int(ipaddress.IPv6Address(network.ipv6_gateway))
    host = gateway & (1 << 128 - network.ipv6_subnet_len) - 1
    return {str(ipaddress.IPv6Address(host)): True}


def tag_set(ranges: str, size: int, *, offset: int = 0) -> BitSet:
    """Return the tags of `a-b,c-d`, each `offset` lower, within 1..size-1.

    Raises Invalid for a malformed list.
    """
    tags = BitSet(0, size)
    for item in ranges.split(","):
        first, _, last = item.strip().partition("-")
        try:
            tags |= bitset.span(max(int(first) - offset, 1), int(last) - offset, size)
        except ValueError as exc:
            raise Invalid(f"invalid tags {ranges}, correct '10-50,70-100'") from exc
    return tags


def vxlan_start(ranges: str) -> int:
    """Return the offset of a VNI in the VXLAN resource's map. Raises Invalid."""
    first = bounded(ranges.partition("-")[0].strip(), 0, _GREATEST)
    if first is None:
        raise Invalid(f"invalid tags {ranges[:80]}, correct '10-50,70-100'")
    return first - 1


def last_address(subnet: str, length: int) -> str:
    """Return the last address of a subnet as text."""
    return str(ipaddress.IPv4Address(_number(subnet) | (1 << 32 - length) - 1))


def host_number(address: str, length: int) -> int:
    """Return an address's number within its subnet of that prefix length."""
    return _number(address) & (1 << 32 - length) - 1


def _number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))
