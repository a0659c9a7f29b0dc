"""The grants of addresses, from their users and from the original's allocation maps.

The original marks addresses in a bitmap that does not say whose they are. Here each address has one
owner. Gateways, endpoints and services are the known ones. What is marked beside them was reserved
for a container that docker was about to start, or was never released: it becomes a reservation,
which ends by itself. Source: docs/original/netmaster-state.md §5.
"""

from collections.abc import Container, Iterator
from functools import partial

from core import ids, keys
from core.addresses import canonical, ipv4, ipv4_text, ipv6, parse_pool
from core.collections import bitset
from core.collections.bitset import BitSet
from core.ids import NetworkId
from netmaster.takeover.draft import Draft
from netmaster.takeover.records import network_of
from state import creation
from state.records import GrantOwner, GrantRecord, GroupRecord, NetworkRecord

_User = tuple[GrantOwner, str, str]
"""Kind and id of an address's owner, and the key that says so."""


def translate(draft: Draft) -> None:
    """Add the grants to a draft that has all else."""
    uses = _uses(draft)
    for nid, network in draft.networks.items():
        owners = {address: users[0] for (net, address), users in uses.items() if net == nid}
        reserved = dict(_reserved(draft, network, owners.keys()))
        if reserved:
            text = (
                f"{len(reserved)} addresses are marked as used and have no user, {min(reserved)} "
                "among them: reserved, until the first leader's reservations end"
            )
            draft.note(keys.network(nid), text)
        # In the order of the addresses: IPv6 goes on after the newest grant, so after the last one.
        for address in sorted({*owners, *reserved}, key=_number):
            owner, owner_id, _ = owners.get(address, (GrantOwner.RESERVATION, "", ""))
            draft.grants[keys.grant(nid, address)] = GrantRecord(
                owner=owner,
                owner_id=owner_id or reserved.get(address, ""),
                seq=len(draft.grants) + 1,
            )


def _uses(draft: Draft) -> dict[tuple[NetworkId, str], list[_User]]:
    """Return the users of all addresses; refuse addresses with several."""
    uses: dict[tuple[NetworkId, str], list[_User]] = {}
    for nid, address, user in _all_uses(draft):
        if not draft.networks[nid].holds(address):
            _outside(draft, user, address)
            continue
        uses.setdefault((nid, address), []).append(user)
    for (nid, address), users in uses.items():
        first, *others = users
        for other in others:
            text = f"its address {address} on network {nid} is that of {first[0]} {first[1]} too"
            draft.refuse(other[2], text, "delete one of the two in the original")
    return uses


def _all_uses(draft: Draft) -> Iterator[tuple[NetworkId, str, _User]]:
    for network in draft.networks.values():
        key = keys.network(network.id)
        for text in filter(None, (network.gateway, network.ipv6_gateway)):
            address = draft.decoded(key, partial(canonical, text))
            if address:
                yield network.id, address, (GrantOwner.GATEWAY, network.id, key)
    for endpoint in draft.endpoints.values():
        key = keys.endpoint(endpoint.key)
        for text in filter(None, (endpoint.ip_address, endpoint.ipv6_address)):
            address = draft.decoded(key, partial(canonical, text))
            if address:
                yield endpoint.network, address, (GrantOwner.ENDPOINT, endpoint.key, key)
    for service in draft.services.values():
        key = keys.service_lb(service.key)
        address = draft.decoded(key, partial(canonical, service.ip_address))
        if address:
            nid = ids.network_id(service.network, service.tenant)
            yield nid, address, (GrantOwner.VIP, service.key, key)


def _outside(draft: Draft, user: _User, address: str) -> None:
    owner, _, key = user
    if owner is GrantOwner.GATEWAY:
        # The original accepts such gateways, and pods have routes by them.
        draft.note(key, f"its gateway {address} is not in its subnet")
    else:
        draft.refuse(key, f"its address {address} is not in its network's subnet", "delete it")


def _reserved(
    draft: Draft, network: NetworkRecord, owned: Container[str]
) -> Iterator[tuple[str, str]]:
    """Yield the IPv4 addresses that are marked without an owner, with their group, "" for none."""
    # IPv6 addresses are marked until the network is deleted, those of endpoints long gone too.
    if network.v4 is None:
        return
    base = network.v4.base
    groups = [group for group in draft.groups.values() if network_of(group) == network.id]
    pooled = [group for group in groups if group.ip_pool]
    marked = draft.marked[network.id].bits & ~creation.network_map(network).bits
    for group in pooled:
        marked &= ~_pool(group, network).bits
    for number in _members(marked):
        if (address := ipv4_text(base + number)) not in owned:
            yield address, ""
    for group in pooled:
        for number in _members(draft.marked[group.key].bits & _pool(group, network).bits):
            if (address := ipv4_text(base + number)) not in owned:
                yield address, group.key


def _pool(group: GroupRecord, network: NetworkRecord) -> BitSet:
    """Return the host numbers of a group's pool."""
    subnet = network.v4
    if subnet is None:
        return BitSet()
    low, high = parse_pool(group.ip_pool)
    return bitset.span(low - subnet.base, high - subnet.base, subnet.size)


def _members(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _number(address: str) -> tuple[bool, int]:
    return (True, ipv6(address)) if ":" in address else (False, ipv4(address))
