"""Who gets which address: the choices and refusals that endpoints, reservations and groups share.

An address is held by exactly one grant. A requested address must lie in the subnet and be free,
and in the group's pool if the group has one, else in no pool (the original grants whatever is
asked for). A reservation may be turned into an endpoint's grant, which `usable` says.
"""

from dataclasses import dataclass

from core import keys
from core.addresses import Subnet, ipv4, ipv4_text, ipv6, ipv6_text
from core.errors import Conflict, Exhausted, Invalid, NotFound
from core.ids import GroupKey
from netmaster.ipam.network import NetworkAddresses
from netmaster.ipam.pool import Pool
from netmaster.ipam.pool6 import Pool6
from netmaster.stored import Write
from netmaster.view import View, network_of
from state.records import GrantOwner, GrantRecord, GroupRecord, NetworkRecord


@dataclass(frozen=True, slots=True)
class Ground:
    """Where an address is to come from: a network and, within it, perhaps a group."""

    network: NetworkRecord
    addresses: NetworkAddresses
    group: GroupRecord | None = None

    @property
    def v4(self) -> Pool:
        """Return the IPv4 pool."""
        if self.addresses.v4 is None:
            raise NotFound("key not found")
        return self.addresses.v4

    @property
    def v6(self) -> Pool6:
        """Return the IPv6 pool; Invalid if the network has no IPv6 subnet."""
        if self.addresses.v6 is None:
            raise Invalid("subnet length 0 is invalid")
        return self.addresses.v6

    @property
    def pool_owner(self) -> GroupKey | None:
        """Return the group whose pool the IPv4 address must come from, if any."""
        return self.group.key if self.group is not None and self.group.ip_pool else None


def ground(view: View, network: NetworkRecord, group_key: GroupKey | None) -> Ground:
    """Return where a request's addresses come from; refuses an unknown or foreign group."""
    nid = network.id
    group = None
    if group_key is not None:
        group = view.groups.get(group_key)
        if group is None:
            raise NotFound("key not found")
        if network_of(group) != nid:
            raise Invalid(f"endpoint group {group_key} belongs to network {network_of(group)}")
    return Ground(network, view.addresses[nid], group)


def choose4(place: Ground, requested: str, *, usable: GrantOwner | None = None) -> str:
    """Return the requested IPv4 address, or the lowest free one.

    A requested address may be held by a grant of the `usable` kind.
    """
    if not requested:
        return _lowest(place)
    pool = place.v4
    address = in_subnet4(requested, pool.subnet)
    if pool.group_of(address) != place.pool_owner or not pool.assignable(address):
        raise not_available(requested)
    _check_holder(place.addresses, requested, usable)
    return requested


def choose6(place: Ground, requested: str, *, usable: GrantOwner | None = None) -> str:
    """Return the requested IPv6 address, or the one that follows the last one given."""
    pool = place.v6
    if not requested:
        following = pool.following()
        if following is None:
            raise Exhausted(f"Reached MaxHosts ({pool.hosts}). Cannot allocate more hosts")
        return ipv6_text(following)
    address = in_subnet6(requested, pool.subnet)
    text = ipv6_text(address)
    if not pool.assignable(address):
        raise not_available(text)
    _check_holder(place.addresses, text, usable)
    return text


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
    """Return the refusal of an address that is held, or never given."""
    return Conflict(f"ip address {address} is not available")


def put(place: Ground, address: str, grant: GrantRecord) -> Write:
    """Return the write that gives an address, be it free or held by a reservation until now."""
    key = keys.grant(place.network.id, address)
    return Write(key, grant, new=address not in place.addresses.grants)


def _lowest(place: Ground) -> str:
    owner = place.pool_owner
    address = place.v4.lowest(owner)
    if address is not None:
        return ipv4_text(address)
    if owner is not None and place.group is not None:
        where = f"pool {place.group.ip_pool}"
    else:
        where = f"subnet {place.v4.subnet}"
    raise Exhausted(f"auto allocation failed - address exhaustion in {where}")


def _check_holder(addresses: NetworkAddresses, text: str, usable: GrantOwner | None) -> None:
    grant = addresses.grants.get(text)
    if grant is not None and grant.owner is not usable:
        raise not_available(text)
