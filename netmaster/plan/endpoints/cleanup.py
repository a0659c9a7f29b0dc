"""Decisions about clean-ups: remove all endpoints of a network, a group, a container id or a host.

There may be more endpoints than one transaction takes. So the intent is stored first, then parts
remove the endpoints that are left (ADR 9). A part done twice does no harm, and the next leader
continues an unfinished clean-up. `netmaster.hosts.cleanups` carries the parts out with the agents.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from core import ids, keys
from core.errors import Conflict, Invalid, NotFound
from core.ids import EndpointKey, GroupName, HostLabel, TenantName
from netmaster.indexes.endpoint_index import with_id
from netmaster.plan.endpoints import endpoint
from netmaster.plan.model import Plan
from netmaster.stored import ANY_TENANT, CleanupCategory, EndpointCleanup, Write
from netmaster.view import View, own_network_id
from state.records import EndpointRecord

CHUNK: Final = 10
"""Endpoints removed by one plan: a record and up to two addresses each."""
FORCE_HINT: Final = "or remove it all the same: netctl host rm {} --force"
"""The remedy in refusals to remove a host that is in use; formatted with its label."""


def begin(view: View, tenant: str, category: str, name: str) -> Plan:
    """Store a clean-up, which is the reply. Raises NotFound where there is nothing to remove."""
    if category not in _TITLES:
        raise Invalid(f"unknown category {category}, expected net, group or ep")
    kind = CleanupCategory(category)
    whole = _container(view, TenantName(tenant), name) if kind is CleanupCategory.ENDPOINT else name
    cleanup = EndpointCleanup(TenantName(tenant), kind, whole, view.next_seq)
    if next(_left(view, cleanup), None) is None:
        raise NotFound(f"no endpoints of {_TITLES[kind]} {name} in tenant {tenant}")
    key = _key(cleanup)
    return Plan((Write(key, cleanup, new=key not in view.cleanups),), reply=cleanup)


def begin_host(
    view: View,
    label: HostLabel,
    host_rev: int | None,
    *,
    undrain: bool = False,
    unused: bool = False,
    renewal: str = "",
) -> Plan:
    """Store the clean-up of a host with all its endpoints; the reply is the clean-up.

    Also delete its record and, with `undrain`, its drain. `host_rev` is the revision at which the
    record was read, None for a host without one. Conflict while it has endpoints if it must be
    `unused`. `renewal` is that of the address blocks which the host has lost by its absence: its
    lease ends, with Conflict if it was renewed meanwhile. "" ends none.
    """
    lease = view.block_leases.get(label)
    if renewal and (lease is None or lease.renewal != renewal):
        raise Conflict(f"host {label} has renewed its address blocks")
    found = len(view.host_endpoints.get(label, ()))
    if unused and found:
        raise Conflict(
            f"host {label} has {found} endpoints; delete them, {FORCE_HINT.format(label)}"
        )
    cleanup = EndpointCleanup(ANY_TENANT, CleanupCategory.HOST, label, view.next_seq)
    key = _key(cleanup)
    writes = [Write(key, cleanup, new=key not in view.cleanups)]
    if host_rev is not None:
        # Only at the revision that was read. An agent that starts meanwhile writes the record anew,
        # and the transaction must fail then: that host is alive.
        writes.append(Write(keys.host(label), None, new=False, rev=host_rev))
    if label in view.absences:
        writes.append(Write(keys.absence(label), None, new=False))
    if renewal:
        writes.append(Write(keys.address_blocks(label), None, new=False))
    if undrain and label in view.drains:
        writes.append(Write(keys.drain(label), None, new=False))
    return Plan(tuple(writes), reply=cleanup)


def next_part(view: View, cleanup: EndpointCleanup) -> list[EndpointRecord]:
    """Return some of the endpoints that are left to remove; none when all is done."""
    return list(islice(_left(view, cleanup), CHUNK))


def remove(view: View, part: Iterable[EndpointRecord]) -> Plan:
    """Remove those endpoints of a part that are still there; the reply is how many.

    An endpoint that changed since the part was read is left for the next part: it may have been
    deleted and created again, on another host.
    """
    gone = [record for record in part if view.endpoints.get(record.key) == record]
    writes = [write for record in gone for write in endpoint.remove(view, record).writes]
    return Plan(tuple(writes), reply=len(gone))


def finish(view: View, cleanup: EndpointCleanup) -> Plan:
    """Delete a clean-up that is done, unless it was requested again meanwhile."""
    key = _key(cleanup)
    if view.cleanups.get(key) != cleanup:
        return Plan((), reply=None)
    return Plan((Write(key, None, new=False),), reply=None)


def announcement(category: str, name: str) -> str:
    """Return what the original answers."""
    titles = {
        CleanupCategory.NETWORK: "Network",
        CleanupCategory.GROUP: "EPG",
        CleanupCategory.ENDPOINT: "Endpoint",
    }
    return f"Received request to cleanup {titles[CleanupCategory(category)]} with ID: {name}"


_TITLES: Final = {
    CleanupCategory.NETWORK: "network",
    CleanupCategory.GROUP: "endpoint group",
    CleanupCategory.ENDPOINT: "container",
}


def _key(cleanup: EndpointCleanup) -> str:
    return keys.cleanup(cleanup.tenant, cleanup.category, cleanup.name)


def _left(view: View, cleanup: EndpointCleanup) -> Iterator[EndpointRecord]:
    """Yield the endpoints that a clean-up selects and that existed when it began.

    Without that limit a network that is in use would keep its clean-up busy for ever, and pods
    that came after the request would lose their endpoints.
    """
    for key in _selected(view, cleanup):
        record = view.endpoints[key]
        if _seq(view, record) < cleanup.before:
            yield record


def _selected(view: View, cleanup: EndpointCleanup) -> Iterable[EndpointKey]:
    tenant, name = cleanup.tenant, cleanup.name
    match cleanup.category:
        case CleanupCategory.NETWORK:
            nid = own_network_id(view, name, tenant)
            return () if nid is None else view.network_endpoints.get(nid, ())
        case CleanupCategory.GROUP:
            return view.group_endpoints.get(ids.group_key(GroupName(name), tenant), ())
        case CleanupCategory.HOST:
            return view.host_endpoints.get(HostLabel(name), ())
        case CleanupCategory.ENDPOINT:
            return [key for key in with_id(view.endpoints, name) if _is_in(view, key, tenant)]


def _container(view: View, tenant: TenantName, text: str) -> str:
    """Return the container id that equals the text, else the only one that contains it.

    Raises Conflict for a part of several ids: the clean-up would remove unrelated endpoints.
    """
    found = {
        record.endpoint_id
        for key, record in view.endpoints.items()
        if text in record.endpoint_id and _is_in(view, key, tenant)
    }
    if text in found or not found:
        return text
    if len(found) > 1:
        raise Conflict(f"endpoint {text} is ambiguous, name it in full")
    return found.pop()


def _is_in(view: View, key: EndpointKey, tenant: TenantName) -> bool:
    nid = view.endpoints[key].network
    network = view.networks.get(nid)
    return network.tenant == tenant if network else nid.endswith(f".{tenant}")


def _seq(view: View, record: EndpointRecord) -> int:
    """Return the sequence number of an endpoint's grant; 0 if it has none any more."""
    addresses = view.addresses.get(record.network)
    grant = addresses.grants.get(record.ip_address) if addresses else None
    return grant.seq if grant else 0
