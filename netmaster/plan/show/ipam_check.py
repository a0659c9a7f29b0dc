"""Finds inconsistencies between addresses in use and grants, and decides repairs. Pure.

Endpoints, gateways and services are committed together with their grants. So findings come from
writes of other programs, or from data of older releases. A finding has a repair if that is certain:
release an address that is not used, or grant it to its only user. Two users of one address are
left to the administrator, and so are addresses that were excluded while they were in use.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, islice
from typing import Final

from core import ids, keys
from core.addresses import canonical
from core.ids import HostLabel, NetworkId
from netmaster.plan import exclusions
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from state.records import GrantOwner, GrantRecord, NetworkRecord

CHUNK: Final = 30
"""Findings repaired by one plan: an address each, whose release Consul counts twice."""


Place = tuple[NetworkId, str]
"""An address of a network."""


class IpamFindingKind(StrEnum):
    """The kinds of findings."""

    UNUSED = "grant-without-owner"
    OVERDUE = "reservation-overdue"
    MISSING = "owner-without-grant"
    CONTESTED = "address-contested"
    HOMELESS = "endpoint-on-unknown-host"
    EXCLUDED = "excluded-address-in-use"


@dataclass(frozen=True, slots=True, kw_only=True)
class IpamFinding:
    """A finding; `repair` is the write that repairs it, None where an administrator has to."""

    kind: IpamFindingKind
    network: NetworkId
    address: str
    owner: str
    since: float | None
    remedy: str
    repair: Write | None

    @property
    def place(self) -> Place:
        """Return the address that is concerned."""
        return self.network, self.address

    def shown(self) -> dict[str, object]:
        """Return the finding as REST shows it."""
        return {
            "kind": self.kind,
            "network": self.network,
            "address": self.address,
            "owner": self.owner,
            "since": self.since,
            "remedy": self.remedy,
            "certain": self.repair is not None,
        }

    def logged(self) -> dict[str, object]:
        """Return the finding as the log's fields."""
        return {
            "key": self.kind,
            "network": self.network,
            "address": self.address,
            "endpoint": self.owner,
        }


Use = tuple[GrantOwner, str]
"""A user of an address: kind and id of the owner that its grant should have."""

_Uses = Mapping[tuple[NetworkId, str], Sequence[Use]]


def findings(
    view: View,
    now: float,
    hosts: Container[HostLabel] | None = None,
    *,
    overdue: Container[str] = (),
) -> Iterator[IpamFinding]:
    """Yield all findings; `hosts` are the known hosts, None to skip the check of hosts.

    `overdue` are the keys of the reservations that are overdue.
    """
    uses = _uses(view)
    yield from _wrong_grants(view, uses, overdue)
    yield from _wrong_uses(view, uses, now)
    yield from _excluded(view)
    if hosts is not None:
        yield from _homeless(view, hosts)


def suspected(view: View, now: float, overdue: Container[str] = ()) -> frozenset[Place]:
    """Return the addresses with findings that can be repaired."""
    return frozenset(finding.place for finding in _certain(view, now, overdue))


def fix(view: View, now: float, places: Container[Place], overdue: Container[str] = ()) -> Plan:
    """Repair some findings at these places; the reply is the list. Repeat until it is empty."""
    # Decided against the view that it is committed to: a finding that has disappeared since it
    # was suspected yields no write.
    certain = _certain(view, now, overdue)
    repaired = list(islice((one for one in certain if one.place in places), CHUNK))
    return Plan(tuple(finding.repair for finding in repaired if finding.repair), reply=repaired)


def counts(view: View) -> dict[str, int]:
    """Return the number of endpoints, and of addresses by kind of owner."""
    held = Counter(
        grant.owner for addresses in view.addresses.values() for grant in addresses.grants.values()
    )
    return {"endpoints": len(view.endpoints), **{f"held by {o}": held[o] for o in GrantOwner}}


def _certain(view: View, now: float, overdue: Container[str]) -> Iterator[IpamFinding]:
    found = findings(view, now, overdue=overdue)
    return (finding for finding in found if finding.repair is not None)


def _uses(view: View) -> _Uses:
    """Return the users of all addresses, granted or not."""
    uses: dict[tuple[NetworkId, str], list[Use]] = {}

    def use(nid: NetworkId, address: str, owner: GrantOwner, owner_id: str) -> None:
        if address:
            uses.setdefault((nid, address), []).append((owner, owner_id))

    for endpoint in view.endpoints.values():
        for address in (endpoint.ip_address, endpoint.ipv6_address):
            use(endpoint.network, address, GrantOwner.ENDPOINT, endpoint.key)
    for network in view.networks.values():
        for gateway in (network.gateway, network.ipv6_gateway):
            use(network.id, _canonical(gateway), GrantOwner.GATEWAY, network.id)
    for service in view.services.values():
        nid = ids.network_id(service.network, service.tenant)
        use(nid, service.ip_address, GrantOwner.VIP, service.key)
    return uses


def _wrong_grants(view: View, uses: _Uses, overdue: Container[str]) -> Iterator[IpamFinding]:
    for nid, addresses in view.addresses.items():
        for address, grant in addresses.grants.items():
            kind = None
            if grant.owner is GrantOwner.RESERVATION:
                if keys.grant(nid, address) in overdue or nid not in view.networks:
                    kind = IpamFindingKind.OVERDUE
            elif grant.owner is GrantOwner.BLOCK:
                continue  # those of ended leases are released periodically
            elif (grant.owner, grant.owner_id) not in uses.get((nid, address), ()):
                kind = IpamFindingKind.UNUSED
            if kind is not None:
                yield IpamFinding(
                    kind=kind,
                    network=nid,
                    address=address,
                    owner=f"{grant.owner} {grant.owner_id}",
                    since=grant.granted_at or None,
                    remedy="release the address",
                    repair=Write(keys.grant(nid, address), None, new=False),
                )


def _wrong_uses(view: View, uses: _Uses, now: float) -> Iterator[IpamFinding]:
    seqs = count(view.next_seq)
    for (nid, address), users in uses.items():
        network = view.networks.get(nid)
        grant = view.addresses[nid].grants.get(address) if nid in view.addresses else None
        holder = (grant.owner, grant.owner_id) if grant else None
        if network is None or users == [holder]:
            continue
        if len(users) > 1 or (grant and grant.owner is GrantOwner.RESERVATION):
            yield from _contested(nid, address, users, grant)
        elif grant is None:
            (owner, owner_id) = users[0]
            granted = GrantRecord(owner=owner, owner_id=owner_id, seq=next(seqs), granted_at=now)
            yield _ungranted(network, address, granted)


def _contested(
    nid: NetworkId, address: str, users: Sequence[Use], grant: GrantRecord | None
) -> Iterator[IpamFinding]:
    holder = (grant.owner, grant.owner_id) if grant else None
    held = f"{grant.owner} {grant.owner_id}".rstrip() if grant else "nobody"
    for owner, owner_id in users:
        if (owner, owner_id) != holder:
            yield IpamFinding(
                kind=IpamFindingKind.CONTESTED,
                network=nid,
                address=address,
                owner=f"{owner} {owner_id}",
                since=None,
                remedy=f"nothing: delete all but one of its users, it is held by {held}",
                repair=None,
            )


def _ungranted(network: NetworkRecord, address: str, grant: GrantRecord) -> IpamFinding:
    """Return the finding of an address in use without a grant; `grant` would repair it."""
    fits = _fits(network, address)
    return IpamFinding(
        kind=IpamFindingKind.MISSING,
        network=network.id,
        address=address,
        owner=f"{grant.owner} {grant.owner_id}",
        since=None,
        remedy="grant the address to its user" if fits else "nothing: not an address of the subnet",
        repair=Write(keys.grant(network.id, address), grant, new=True) if fits else None,
    )


def _excluded(view: View) -> Iterator[IpamFinding]:
    for nid in view.networks:
        for address, grant in exclusions.held(view, nid):
            yield IpamFinding(
                kind=IpamFindingKind.EXCLUDED,
                network=nid,
                address=address,
                owner=f"{grant.owner} {grant.owner_id}",
                since=grant.granted_at or None,
                remedy="nothing: it is given to no one else; delete its holder to free it",
                repair=None,
            )


def _homeless(view: View, hosts: Container[HostLabel]) -> Iterator[IpamFinding]:
    for label, members in view.host_endpoints.items():
        if label in hosts:
            continue
        remedy = f"netctl host rm {label} --force" if label else "delete the endpoint"
        for key in members:
            endpoint = view.endpoints[key]
            yield IpamFinding(
                kind=IpamFindingKind.HOMELESS,
                network=endpoint.network,
                address=endpoint.ip_address or endpoint.ipv6_address,
                owner=f"{GrantOwner.ENDPOINT} {key}",
                since=None,
                remedy=f"nothing: {remedy}",
                repair=None,
            )


def _fits(network: NetworkRecord, address: str) -> bool:
    """Return whether a text is an address of the network in the spelling of grants."""
    if not address or _canonical(address) != address:
        return False
    return network.holds(address)


def _canonical(text: str) -> str:
    """Return an address in the spelling of grants; "" for text that is none."""
    try:
        return canonical(text)
    except ValueError:
        return ""
