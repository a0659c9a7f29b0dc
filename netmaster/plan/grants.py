"""Address allocation for endpoints, reservations and services: choices and refusals.

An address is held by exactly one grant. A requested address must lie in the subnet and be free. It
must be in the group's pool if the group has one, else in no group's pool; the original checks
neither. An endpoint may take over the address of a reservation (`Usable`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from core import keys
from core.addresses import Subnet, ipv4, ipv4_text, ipv6, ipv6_text
from core.errors import Conflict, Exhausted, Invalid, NotFound
from core.ids import POD_NAME, EndpointKey, GroupKey, endpoint_name
from netmaster.ipam.network_addresses import NetworkAddresses
from netmaster.ipam.pool import Pool
from netmaster.ipam.pool6 import Pool6
from netmaster.ipam.ranges import NOTHING, NOTHING_EXCLUDED, Excluded, Ranges, excluded
from netmaster.plan import address_space
from netmaster.stored import Write
from netmaster.view import View, network_of
from state.records import EndpointRecord, GrantOwner, GrantRecord, GroupRecord, NetworkRecord


@dataclass(frozen=True, slots=True)
class Usable:
    """The grants of others that a new owner takes over.

    Those of a kind of owner but what is kept for somebody else, what is kept for the name `keep`,
    the block of a host with this `token`, and those of the endpoint that is `leaving`.
    """

    owner: GrantOwner | None = None
    token: str = ""
    keep: str = ""
    leaving: EndpointRecord | None = None

    def allows(self, grant: GrantRecord) -> bool:
        """Return whether a grant is taken over."""
        match grant.owner:
            case GrantOwner.ENDPOINT:
                return self.leaving is not None and grant.owner_id == self.leaving.key
            case GrantOwner.BLOCK:
                return grant.owner_id == self.token
            case GrantOwner.RESERVATION if grant.kept_for:
                return grant.kept_for == self.keep
            case _:
                return grant.owner is self.owner


NOBODYS: Final = Usable()


def endpoint_text(endpoint: EndpointRecord) -> str:
    """Name an endpoint as people know it, and its host."""
    labels = endpoint.labels or {}
    kind = "pod" if POD_NAME in labels else "container"
    called = endpoint_name(endpoint.common_name, labels) or endpoint.endpoint_id
    return f"{kind} {called} on host {endpoint.homing_host}"


@dataclass(frozen=True, slots=True)
class AddressSource:
    """Where an address is allocated from: a network, or the pool of a group in it."""

    network: NetworkRecord
    addresses: NetworkAddresses
    group: GroupRecord | None = None
    reserved: Ranges = NOTHING
    """Addresses that hosts or masters need, which registered later than the network."""
    excluded: Excluded = NOTHING_EXCLUDED
    """What the network and the group exclude."""
    endpoints: Mapping[EndpointKey, EndpointRecord] = field(default_factory=dict)
    """All endpoints, to say whose an address is."""

    @property
    def v4(self) -> Pool:
        """Return the IPv4 pool; Invalid if the network has no IPv4 subnet."""
        if self.addresses.v4 is None:
            if not self.network.subnet:
                raise Invalid(f"network {self.network.id} has no IPv4 subnet")
            raise NotFound("key not found")
        return self.addresses.v4

    @property
    def v6(self) -> Pool6:
        """Return the IPv6 pool; Invalid if the network has no IPv6 subnet."""
        if self.addresses.v6 is None:
            raise Invalid("subnet length 0 is invalid")
        return self.addresses.v6

    @property
    def barred4(self) -> Ranges:
        """Return the IPv4 addresses that are not to be chosen, free or not."""
        return self.reserved | self.excluded.v4

    @property
    def barred6(self) -> Ranges:
        """As `barred4`, for IPv6."""
        return self.reserved | self.excluded.v6

    @property
    def pool_owner(self) -> GroupKey | None:
        """Return the group whose pool the IPv4 address must come from, if any."""
        return self.group.key if self.group is not None and self.group.ip_pool else None


def address_source(view: View, network: NetworkRecord, group_key: GroupKey | None) -> AddressSource:
    """Return the source for a request. Refuses a group that is unknown or of another network."""
    nid = network.id
    group = None
    if group_key is not None:
        group = view.groups.get(group_key)
        if group is None:
            raise NotFound("key not found")
        if network_of(group) != nid:
            raise Invalid(f"endpoint group {group_key} belongs to network {network_of(group)}")
    reserved = address_space.reserved(view, network)
    barred = excluded(network.exclude if group is None else network.exclude + group.exclude)
    return AddressSource(network, view.addresses[nid], group, reserved, barred, view.endpoints)


def choose4(
    source: AddressSource,
    requested: str,
    *,
    usable: Usable = NOBODYS,
    running: bool = False,
) -> str:
    """Return the requested IPv4 address, or the lowest free one.

    A requested address may be held by a grant that is `usable`. One that is excluded is refused,
    unless it is held in this way, or a pod is `running` with it.
    """
    if not requested:
        return _lowest(source)
    pool = source.v4
    address = in_subnet4(requested, pool.subnet)
    if pool.group_of(address) != source.pool_owner or not pool.assignable(address):
        raise not_available(requested)
    if address in source.reserved:
        raise needed(requested)
    is_held = _check_holder(source, requested, usable)
    if address in source.excluded.v4 and not (is_held or running):
        raise _excluded(source, requested, address)
    return requested


def choose6(
    source: AddressSource,
    requested: str,
    *,
    usable: Usable = NOBODYS,
    running: bool = False,
) -> str:
    """As `choose4`, for IPv6: the next free address after the last allocated."""
    pool = source.v6
    if not requested:
        following = pool.following(source.barred6)
        if following is None:
            raise Exhausted(f"Reached MaxHosts ({pool.hosts}). Cannot allocate more hosts")
        return ipv6_text(following)
    address = in_subnet6(requested, pool.subnet)
    text = ipv6_text(address)
    if not pool.assignable(address):
        raise not_available(text)
    if address in source.reserved:
        raise needed(text)
    is_held = _check_holder(source, text, usable)
    if address in source.excluded.v6 and not (is_held or running):
        raise _excluded(source, text, address)
    return text


def lowest_within(source: AddressSource, within: Subnet) -> str:
    """Return the lowest free IPv4 address of a part of the subnet.

    One that rests comes after all others. Raises Invalid for a range that is no part of it.
    """
    if within.base not in source.v4.subnet or within.last not in source.v4.subnet:
        raise Invalid(f"address range {within} is not in subnet {source.v4.subnet}")
    address = source.v4.lowest(source.pool_owner, (within.base, within.last), but=source.barred4)
    if address is None:
        raise Exhausted(f"auto allocation failed - address exhaustion in range {within}")
    return ipv4_text(address)


def following_within(source: AddressSource, within: Subnet) -> str:
    """As `lowest_within`, for IPv6, where no address rests."""
    pool = source.v6
    if within.base not in pool.subnet or within.last not in pool.subnet:
        raise Invalid(f"address range {within} is not in subnet {pool.subnet}")
    address = pool.lowest_within(within.base, within.last, source.barred6)
    if address is None:
        raise Exhausted(f"auto allocation failed - address exhaustion in range {within}")
    return ipv6_text(address)


def in_subnet4(text: str, subnet: Subnet) -> int:
    """Return the address `text` spells; Invalid if it is none or lies outside the subnet."""
    try:
        address = ipv4(text)
    except ValueError as exc:
        raise Invalid(f"unable to convert hostIP {text} to uint32") from exc
    if address not in subnet:
        host = (address - subnet.base) & 0xFFFFFFFF
        raise Invalid(f"hostIP {text} is exceeding beyond subnet {subnet}, hostID {host}")
    return address


def in_subnet6(text: str, subnet: Subnet) -> int:
    """Return the address `text` spells; Invalid if it is none or lies outside the subnet."""
    try:
        address = ipv6(text)
    except ValueError as exc:
        raise Invalid(f"{text} is not an IPv6 address") from exc
    if address not in subnet:
        raise Invalid(f"hostIP {text} is exceeding beyond subnet {subnet}")
    return address


def not_available(address: str) -> Conflict:
    """Return the refusal of an address that is held or never assigned."""
    return Conflict(f"ip address {address} is not available")


def needed(address: str) -> Conflict:
    """Return the refusal of an address that a host, a master or the store needs."""
    return Conflict(f"ip address {address} is not available: a host or master needs it")


def grant_write(source: AddressSource, address: str, grant: GrantRecord) -> Write:
    """Return the write of a grant, for a free address or one that a reservation holds."""
    # The key of a grant is its address. A new grant requires that the key does not exist, so the
    # store itself refuses a second owner of an address, even from a leader that was deposed and
    # has not noticed. No lock and no counter protects an address.
    key = keys.grant(source.network.id, address)
    return Write(key, grant, new=address not in source.addresses.grants)


def _lowest(source: AddressSource) -> str:
    owner = source.pool_owner
    address = source.v4.lowest(owner, but=source.barred4)
    if address is not None:
        return ipv4_text(address)
    if owner is not None and source.group is not None:
        where = f"pool {source.group.ip_pool}"
    else:
        where = f"subnet {source.v4.subnet}"
    raise Exhausted(f"auto allocation failed - address exhaustion in {where}")


def _check_holder(source: AddressSource, text: str, usable: Usable) -> bool:
    """Return whether an address is held already for who asks. Raises Conflict if by others."""
    grant = source.addresses.grants.get(text)
    if grant is None:
        return False
    if usable.allows(grant):
        return True
    raise Conflict(f"{not_available(text)}{_holder(source, grant)}")


def _holder(source: AddressSource, grant: GrantRecord) -> str:
    """Say who has an address, where that helps: only the user of the network learns it."""
    if grant.owner is GrantOwner.ENDPOINT:
        endpoint = source.endpoints.get(EndpointKey(grant.owner_id))
        return f": {endpoint_text(endpoint)} has it" if endpoint else ""
    return f": it is kept for {grant.kept_for}" if grant.kept_for else ""


def _excluded(source: AddressSource, text: str, address: int) -> Conflict:
    network, group = source.network, source.group
    ranges = excluded(network.exclude)
    by = f"network {network.id}"
    if group is not None and address not in ranges.v4 and address not in ranges.v6:
        by = f"endpoint group {group.key}"
    return Conflict(f"ip address {text} is not available: {by} excludes it")
