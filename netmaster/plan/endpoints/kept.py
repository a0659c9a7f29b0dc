"""Decisions about addresses that are kept for a pod or machine by its name (ADR 46). Pure.

A kept address has a grant that names whom it is kept for. While an endpoint of that name is there,
the endpoint owns it; without one the grant is a reservation, which only an endpoint of the name
takes over. `netmaster.reservations` says for how long.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from core import keys
from core.addresses import derived_mac
from core.errors import Conflict, Invalid
from core.ids import OF_MACHINE, EndpointKey, NetworkId
from netmaster.plan.grants import endpoint_text
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from state.records import EndpointRecord, GrantOwner, GrantRecord

CHUNK: Final = 24
"""How many addresses one plan writes about."""
_PART: Final = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_NAME: Final = re.compile(rf"{_PART}/{_PART}(?:{OF_MACHINE})?")
"""`<namespace>/<pod>`, and `<namespace>/<machine>@vm` for a machine of KubeVirt."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept for a name on a network, "" where nothing is; `grants` are by key."""

    ipv4: str = ""
    ipv6: str = ""
    mac: str = ""
    grants: Mapping[str, GrantRecord] = field(default_factory=dict)


NOTHING: Final = Kept()


def find(view: View, nid: NetworkId, name: str, leaving: EndpointRecord | None = None) -> Kept:
    """Return what is kept for a name that an endpoint is to have; nothing for "".

    Raises Invalid for text that is no name, Conflict while an endpoint but the one that is
    `leaving` has the addresses.
    """
    if not name:
        return NOTHING
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name[:80]!r} is no name that addresses can be kept for")
    grants = view.kept.get((nid, name), {})
    addresses = {keys.parse_grant(key)[1]: grant for key, grant in grants.items()}
    for address, grant in addresses.items():
        if grant.owner is GrantOwner.ENDPOINT and not _is_of(grant, leaving):
            there = view.endpoints.get(EndpointKey(grant.owner_id))
            has_it = endpoint_text(there) if there else f"endpoint {grant.owner_id}"
            raise Conflict(
                f"ip address {address} is kept for {name}, and {has_it} has it: it is given again "
                "once that one is gone, or its host is declared dead"
            )
    return Kept(
        ipv4=next((one for one in addresses if ":" not in one), ""),
        ipv6=next((one for one in addresses if ":" in one), ""),
        mac=next((grant.mac for grant in addresses.values() if grant.mac), ""),
        grants=grants,
    )


def holder(view: View, nid: NetworkId, name: str) -> EndpointRecord | None:
    """Return the endpoint that has what is kept for a name, None if there is none."""
    grants = view.kept.get((nid, name), {}).values()
    owners = (one.owner_id for one in grants if one.owner is GrantOwner.ENDPOINT)
    return next((view.endpoints[EndpointKey(one)] for one in owners if one in view.endpoints), None)


def after(endpoint: EndpointRecord, grant: GrantRecord) -> GrantRecord:
    """Return what an endpoint leaves of a grant that is kept: a reservation for its name."""
    derived = derived_mac(endpoint.ip_address, endpoint.ipv6_address)
    return replace(
        grant,
        owner=GrantOwner.RESERVATION,
        owner_id=endpoint.group_key,
        mac="" if endpoint.mac_address == derived else endpoint.mac_address,
        reserved=False,
    )


def _is_of(grant: GrantRecord, endpoint: EndpointRecord | None) -> bool:
    return endpoint is not None and grant.owner_id == endpoint.key


def not_taken(kept: Kept, nid: NetworkId, taken: Iterable[str]) -> tuple[Write, ...]:
    """Return the releases of what was kept, and is not among the addresses that are taken."""
    wanted = {keys.grant(nid, address) for address in taken if address}
    return tuple(Write(key, None, new=False) for key in kept.grants if key not in wanted)


def release(view: View, nid: NetworkId, name: str) -> Plan:
    """Release what is kept for a name that is away. Raises Conflict while an endpoint has it."""
    writes = tuple(Write(key, None, new=False) for key in find(view, nid, name).grants)
    return Plan(writes, reply=None)


def store_absences(view: View, seconds: Mapping[str, float]) -> Plan:
    """Store for how long kept addresses have been away, by key; the reply is how many.

    One plan stores some of them: repeat until the reply is 0.
    """
    due = (
        (key, view.reservations[key], total)
        for key, total in seconds.items()
        if key in view.reservations and view.reservations[key].away < total
    )
    writes = tuple(
        Write(key, replace(grant, away=total), new=False)
        for key, grant, total in islice(due, CHUNK)
    )
    return Plan(writes, reply=len(writes))
