"""Decisions about addresses reserved ahead of an endpoint: allocate, release, reclaim.

Docker and Mesos request an address first and create the endpoint with it afterwards
(docs/original/netmaster-state.md §7). A reservation is a grant with an owner kind of its own. Only
reservations are released here; one that no endpoint takes over in time is reclaimed.

In swarm mode docker's managers decide when an address may be used again: that of a service never
becomes an endpoint, and that of a task is released by a manager, some time before or after the
task's host has deleted the endpoint. So an address stays reserved from its allocation to its
release, whatever becomes of its endpoint; else a late release would free what was granted again.
"""

from collections.abc import Container
from dataclasses import replace
from itertools import islice
from typing import Final

from contivmodel.rpc import AllocAddressRequest, ReleaseAddressRequest
from core import ids, keys
from core.addresses import ipv4_text, ipv6, ipv6_text, parse_range, parse_subnet6
from core.errors import Exhausted, Invalid, NotFound
from core.ids import GroupKey, NetworkId
from netmaster.plan.grants import (
    AddressSource,
    Usable,
    address_source,
    choose4,
    choose6,
    following_within,
    grant_write,
    in_subnet4,
    in_subnet6,
    lowest_within,
)
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from state.records import GrantOwner, GrantRecord, NetworkRecord

GRACE: Final = 300.0
"""Seconds a reservation may wait for its endpoint; agents renew auxiliary ones each 120 s."""

MOST_OF_HOST: Final = 128
"""Reservations that the agent of one host may have at a time."""

RESERVED: Final = Usable(GrantOwner.RESERVATION)

CHUNK: Final = 24
"""How many reservations one plan reclaims."""


def allocate(view: View, request: AllocAddressRequest, now: float, *, host: str = "") -> Plan:
    """Reserve an address; the reply is its text with the prefix length.

    The family is IPv6 if the address pool contains a colon. A request for the gateway's address is
    answered with it and reserves nothing. One for an address that is reserved already is answered
    again and begins the reservation's time anew: the engines of several hosts reserve what their
    networks have in common, and only an endpoint ends a reservation.

    `host` is the one whose agent asks, "" where that is not known. An agent may be compromised, and
    a master cannot know which pods its host will have. So what one agent reserves is limited: of
    a network no more than it leaves free to others, and `MOST_OF_HOST` in all.
    """
    source = _source(view, request)
    network = source.network
    if ":" in request.address_pool:
        length = network.ipv6_subnet_len
        if _is_gateway6(network, request.preferred):
            return Plan((), reply=f"{request.preferred}/{length}")
        address = _of_range6(source, request) or choose6(source, request.preferred, usable=RESERVED)
    else:
        length = network.subnet_len
        if request.preferred and request.preferred == network.gateway:
            return Plan((), reply=f"{request.preferred}/{length}")
        address = _of_range4(source, request) or choose4(source, request.preferred, usable=RESERVED)
    before = source.addresses.grants.get(address)
    if before is None and host:
        _check_share(view, source, host, of6=":" in address)
    grant = GrantRecord(
        owner=GrantOwner.RESERVATION,
        owner_id=source.group.key if source.group else "",
        seq=view.next_seq,
        granted_at=now,
        host=host if before is None else before.host,
    )
    return Plan((grant_write(source, address, grant),), reply=f"{address}/{length}")


def allocate_in_swarm(view: View, request: AllocAddressRequest, now: float) -> Plan:
    """Reserve an address in swarm mode.

    Docker asks each node for a network's gateway before the network exists here. The reply is then
    the first host address of the pool (of an IPv6 pool, its base), and nothing is reserved. An
    address that an endpoint has and that is reserved is answered again: a manager that begins to
    lead asks for all that its tasks have.
    """
    if not request.network_id:
        found = _networks_with(view, request.address_pool)
        if not found:
            return Plan((), reply=_first_of(request.address_pool))
        chosen = _swarm_network(view, found)
        request = request.model_copy(update={"network_id": chosen.id})
    if request.preferred:
        network, _ = _named(view, request.network_id)
        grant = view.addresses[network.id].grants.get(request.preferred)
        if grant is not None and grant.reserved:
            of6 = ":" in request.preferred
            length = network.ipv6_subnet_len if of6 else network.subnet_len
            return Plan((), reply=f"{request.preferred}/{length}")
    return allocate(view, request, now)


def release(view: View, request: ReleaseAddressRequest, *, host: str = "") -> Plan:
    """Release a reservation; any other address stays as it is, with the same reply.

    So does one that the agent of another host than `host` reserved, where both are known.

    With a pool and without the id of a network, it is of the network that `allocate_in_swarm` would
    choose.
    """
    if request.network_id or not request.address_pool:
        network, group_key = _named(view, request.network_id)
    else:
        found = _networks_with(view, request.address_pool)
        if not found:
            raise NotFound("network not found")
        network, group_key = _swarm_network(view, found), None
    source = address_source(view, network, group_key)
    text = request.ipv4_address
    if ":" in text:
        text = ipv6_text(in_subnet6(text, source.v6.subnet))
    else:
        in_subnet4(text, source.v4.subnet)
    grant = source.addresses.grants.get(text)
    if grant is not None and grant.reserved:
        unreserved = replace(grant, reserved=False)
        return Plan((Write(keys.grant(network.id, text), unreserved, new=False),), reply="success")
    if grant is None or grant.owner is not GrantOwner.RESERVATION or grant.kept_for:
        # Docker also releases the addresses of endpoints. An endpoint's grant is deleted together
        # with its record; without its record it must not be reused. What is kept is not docker's.
        return Plan((), reply="success")
    if host and grant.host not in {"", host}:
        return Plan((), reply="success")
    return Plan((Write(keys.grant(network.id, text), None, new=False),), reply="success")


def reclaim(view: View, overdue: Container[str]) -> Plan:
    """Release reservations that are overdue or whose network is deleted; the reply is how many.

    `overdue` are keys. One plan releases some of them: repeat until the reply is 0.
    """
    due = (
        key
        for key in view.reservations
        if key in overdue or keys.parse_grant(key)[0] not in view.networks
    )
    writes = tuple(Write(key, None, new=False) for key in islice(due, CHUNK))
    return Plan(writes, reply=len(writes))


def split_alloc_id(text: str) -> tuple[NetworkId, GroupKey | None]:
    """Return network and group of `net:group.tenant`; any other text is a network id as it is."""
    network, _, rest = text.partition(":")
    if text.count(":") != 1 or rest.count(".") != 1:
        return NetworkId(text), None
    group, _, tenant = rest.partition(".")
    return NetworkId(f"{network}.{tenant}"), GroupKey(f"{group}:{tenant}")


def _check_share(view: View, source: AddressSource, host: str, *, of6: bool) -> None:
    """Raise Exhausted if an agent has its share of reservations."""
    own = [
        key for key, grant in view.reservations.items() if grant.host == host and not grant.kept_for
    ]
    if len(own) >= MOST_OF_HOST:
        raise Exhausted(
            f"host {host} has {len(own)} addresses reserved without an endpoint: "
            f"wait until they are used, or end in {GRACE:g} s"
        )
    nid = source.network.id
    pool = source.pool_owner
    here = sum(
        keys.parse_grant(key)[0] == nid and pool in {None, view.reservations[key].owner_id}
        for key in own
    )
    free = source.v6.hosts if of6 else source.v4.free_of(pool)
    if here and here + 1 > free - 1:
        raise Exhausted(
            f"host {host} has {here} of the addresses of network {nid} reserved, and {free} are "
            "left: the rest is for other hosts until these have endpoints"
        )


def _source(view: View, request: AllocAddressRequest) -> AddressSource:
    if request.network_id:
        network, group_key = _named(view, request.network_id)
        return address_source(view, network, group_key)
    return address_source(view, _network_with(view, request.address_pool), None)


def _named(view: View, text: str) -> tuple[NetworkRecord, GroupKey | None]:
    nid, group_key = split_alloc_id(text)
    network = view.networks.get(nid)
    if network is None:
        raise NotFound("key not found")
    return network, group_key


def _network_with(view: View, pool: str) -> NetworkRecord:
    """Return the network whose subnet is `ip/len[:tenant]`; the last by id if there are several."""
    found = _networks_with(view, pool)
    if not found:
        raise NotFound("network not found")
    return max(found, key=lambda network: network.id)


def _swarm_network(view: View, found: list[NetworkRecord]) -> NetworkRecord:
    """Return the network that a pool stands for: one of docker's, before any other."""
    mapped = {ids.network_id(one.network, one.tenant) for one in view.docknets.values()}
    return max(found, key=lambda network: (network.id in mapped, network.id))


def _of_range4(source: AddressSource, request: AllocAddressRequest) -> str:
    """Return the lowest free address of the range asked for, "" where none is asked for."""
    if not request.range or request.preferred:
        return ""
    try:
        within = parse_range(request.range).subnet
    except ValueError as exc:
        raise _not_a_pool(request.range) from exc
    return lowest_within(source, within)


def _of_range6(source: AddressSource, request: AllocAddressRequest) -> str:
    if not request.range or request.preferred:
        return ""
    try:
        within, _ = parse_subnet6(request.range)
    except ValueError as exc:
        raise _not_a_pool(request.range) from exc
    return following_within(source, within)


def _first_of(pool: str) -> str:
    """Return the address that a pool without a network begins with, and its length."""
    wanted, _ = _split_pool(pool)
    try:
        if ":" in wanted:
            subnet, _ = parse_subnet6(wanted)
            return f"{ipv6_text(subnet.base)}/{subnet.length}"
        subnet = parse_range(wanted).subnet
    except ValueError as exc:
        raise _not_a_pool(pool) from exc
    if subnet.size < 2:
        raise _not_a_pool(pool)
    return f"{ipv4_text(subnet.base + 1)}/{subnet.length}"


def _networks_with(view: View, pool: str) -> list[NetworkRecord]:
    wanted, tenant = _split_pool(pool)
    return [
        network
        for network in view.networks.values()
        if _has_subnet(network, wanted) and tenant in (None, network.tenant)
    ]


def _split_pool(pool: str) -> tuple[str, str | None]:
    """Return subnet and tenant of `ip/len[:tenant]`."""
    subnet, slash, rest = pool.partition("/")
    if not slash:
        raise _not_a_pool(pool)
    length, colon, tenant = rest.partition(":")
    return f"{subnet}/{length}", tenant if colon else None


def _not_a_pool(pool: str) -> Invalid:
    return Invalid(f"invalid address pool {pool!r}, expected <subnet>/<length>")


def _has_subnet(network: NetworkRecord, wanted: str) -> bool:
    if ":" not in wanted:
        return wanted == f"{network.subnet}/{network.subnet_len}"
    if not network.ipv6_subnet:
        return False
    try:
        return (
            parse_subnet6(wanted)[0]
            == parse_subnet6(f"{network.ipv6_subnet}/{network.ipv6_subnet_len}")[0]
        )
    except ValueError:
        return False


def _is_gateway6(network: NetworkRecord, text: str) -> bool:
    if not text or not network.ipv6_gateway:
        return False
    try:
        return ipv6(text) == ipv6(network.ipv6_gateway)
    except ValueError:
        return False
