"""Lists of endpoints by what they have, a page at a time. Pure.

In come the query parameters of a request (`netmaster.api.v2.endpoint_list`) and the view; out comes
a page of endpoints in the order of their keys, or of what the request sorts by, where the next page
begins, and how many there are. A page is read from the view as it is at that moment: an endpoint
that stays as it is is shown once, whatever comes and goes between two pages.
"""

import heapq
import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network
from operator import gt, lt
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from contivmodel.answers import Count
from core import ids
from core.errors import Malformed
from core.ids import EndpointKey, GroupKey, HostLabel, NetworkName, TenantName, endpoint_name
from core.numbers import bounded
from netmaster.view import View
from state.records import EndpointRecord, NetworkRecord

LIMIT: Final = 500
"""Endpoints of a page unless a request asks for fewer or more."""
MOST: Final = 5000
SORTS: Final = ("address", "group", "host", "name", "network", "tenant")
"""What endpoints can be sorted by."""

_BETWEEN: Final = "\t"
"""Between what is sorted by and the key, in `next`: keys have none."""


@with_config(ConfigDict(title="Endpoint"))
class ShownEndpoint(TypedDict):
    """An endpoint: where it is, and what is known of it."""

    key: str
    tenant: str
    network: str
    group: str
    host: str
    vtep: str
    addresses: list[str]
    mac: str
    container: str
    containerName: str
    endpointID: str
    interface: str
    labels: dict[str, str]


@with_config(ConfigDict(title="Endpoint.page"))
class EndpointPage(TypedDict):
    """Endpoints in their order."""

    items: list[ShownEndpoint]
    next: Annotated[str, Field(description="`after` of the next page; empty at the end")]
    total: Annotated[Count, Field(description="endpoints that are asked for, on all pages")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointQuery:
    """What is asked for: endpoints that have all of this; "" and None stand for any value.

    `name` is part of the container's name or of `<namespace>/<pod>`, in any case; `address` is a
    network that holds one of the endpoint's addresses; `sort` is one of `SORTS`, "" for the key,
    with "-" before it downwards; `after` is the `next` of the page before; `tenants` are those the
    client may see.
    """

    tenant: str = ""
    network: str = ""
    group: str = ""
    host: str = ""
    container: str = ""
    name: str = ""
    labels: tuple[tuple[str, str | None], ...] = ()
    address: IPv4Network | IPv6Network | None = None
    sort: str = ""
    limit: int = LIMIT
    after: str = ""
    tenants: frozenset[str] | None = field(default=None, metadata={"asked": False})


def query(asked: Mapping[str, Collection[str]]) -> EndpointQuery:
    """Return the query of a request's parameters. Raises Malformed for one that is not known.

    Only `label` (`key` or `key=value`, all of which must be there) may be given several times.
    """
    known = {one.name for one in fields(EndpointQuery) if one.metadata.get("asked", True)}
    names = (known - {"labels"}) | {"label"}
    for name, values in asked.items():
        if name not in names:
            raise Malformed(f"unknown parameter {name}; known are {', '.join(sorted(names))}")
        if len(values) > 1 and name != "label":
            raise Malformed(f"parameter {name} is given {len(values)} times")
    single = {name: next(iter(values)) for name, values in asked.items() if name != "label"}
    read: dict[str, Any] = {
        **single,
        "labels": tuple(_label(one) for one in asked.get("label", ())),
    }
    if "address" in single:
        read["address"] = _prefix(single["address"])
    if "limit" in single:
        read["limit"] = _limit(single["limit"])
    if single.get("sort", "").removeprefix("-") not in {"", *SORTS}:
        raise Malformed(f"parameter sort={single['sort'][:80]}: known are {', '.join(SORTS)}")
    return EndpointQuery(**read)


def page(view: View, wanted: EndpointQuery) -> EndpointPage:
    """Return the first endpoints that a query asks for."""
    found = [key for key in _candidates(view, wanted) if _fits(view, key, wanted)]
    by, down = wanted.sort.removeprefix("-"), wanted.sort.startswith("-")
    ranks = ((_sorted_by(view, view.endpoints[key], by), str(key)) for key in found)
    if wanted.after:
        value, _, key = wanted.after.rpartition(_BETWEEN)
        behind, at = gt if not down else lt, (value, key)
        ranks = (one for one in ranks if behind(one, at))
    first = (heapq.nlargest if down else heapq.nsmallest)(wanted.limit + 1, ranks)
    keys = [EndpointKey(key) for _, key in first[: wanted.limit]]
    further = len(first) > wanted.limit
    return {
        "items": [shown(view, view.endpoints[key]) for key in keys],
        "next": _BETWEEN.join(filter(None, first[wanted.limit - 1])) if further else "",
        "total": len(found),
    }


def shown(view: View, record: EndpointRecord) -> ShownEndpoint:
    """Return an endpoint as API v2 shows it."""
    network = view.networks.get(record.network)
    return {
        "key": record.key,
        "tenant": network.tenant if network else "",
        "network": network.name if network else record.network,
        "group": record.group_key.partition(":")[0],
        "host": record.homing_host,
        "vtep": record.vtep_ip,
        "addresses": list(_in_order(record, network)),
        "mac": record.mac_address,
        "container": record.container_id,
        "containerName": record.common_name.removeprefix("/"),
        "endpointID": record.endpoint_id,
        "interface": record.intf_name,
        "labels": dict(record.labels or {}),
    }


def _in_order(record: EndpointRecord, network: NetworkRecord | None) -> Iterator[str]:
    found = [one for one in (record.ip_address, record.ipv6_address) if one]
    return reversed(found) if network is not None and network.ipv6_first else iter(found)


def _candidates(view: View, wanted: EndpointQuery) -> Iterable[EndpointKey]:
    """Return endpoints among which are all that are wanted: the smallest index that is named."""
    indexes: list[Collection[EndpointKey]] = [view.endpoints]
    if wanted.host:
        indexes.append(view.host_endpoints.get(HostLabel(wanted.host), ()))
    if wanted.container:
        indexes.append(view.same_container_id.get(wanted.container, ()))
    if wanted.tenant and wanted.network:
        network = ids.network_id(NetworkName(wanted.network), TenantName(wanted.tenant))
        indexes.append(view.network_endpoints.get(network, ()))
    if wanted.tenant and wanted.group:
        group = GroupKey(f"{wanted.group}:{wanted.tenant}")
        indexes.append(view.group_endpoints.get(group, ()))
    return min(indexes, key=len)


def _fits(view: View, key: EndpointKey, wanted: EndpointQuery) -> bool:
    record = view.endpoints[key]
    network = view.networks.get(record.network)
    return (
        wanted.host in {"", record.homing_host}
        and wanted.container in {"", record.container_id}
        and _is_called(record, wanted.name)
        and wanted.group in {"", record.group_key.partition(":")[0]}
        and _is_on(network, wanted)
        and all(_has(record.labels or {}, label) for label in wanted.labels)
        and (wanted.address is None or any(one in wanted.address for one in _addresses(record)))
    )


def _is_on(network: NetworkRecord | None, wanted: EndpointQuery) -> bool:
    tenant, name = (network.tenant, network.name) if network else ("", "")
    return (
        wanted.tenant in {"", tenant}
        and wanted.network in {"", name}
        and (wanted.tenants is None or tenant in wanted.tenants)
    )


def _is_called(record: EndpointRecord, part: str) -> bool:
    names = (record.common_name, _name(record))
    return not part or any(part.casefold() in one.casefold() for one in names)


def _name(record: EndpointRecord) -> str:
    return endpoint_name(record.common_name, record.labels or {})


def _sorted_by(view: View, record: EndpointRecord, what: str) -> str:
    match what:
        case "address":
            found = next(_addresses(record), None)
            return f"{found.version}{int(found):039}" if found else ""
        case "group":
            return record.group_key.partition(":")[0]
        case "host":
            return record.homing_host
        case "name":
            return _name(record)
        case "network" | "tenant":
            network = view.networks.get(record.network)
            return "" if network is None else network.name if what == "network" else network.tenant
        case _:
            return ""


def _has(labels: Mapping[str, str], wanted: tuple[str, str | None]) -> bool:
    name, value = wanted
    return name in labels and value in {None, labels[name]}


def _addresses(record: EndpointRecord) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    for text in (record.ip_address, record.ipv6_address):
        if text:
            yield ipaddress.ip_address(text)


def _label(text: str) -> tuple[str, str | None]:
    name, separator, value = text.partition("=")
    if not name:
        raise Malformed(f"parameter label={text} has no name; want key or key=value")
    return name, value if separator else None


def _prefix(text: str) -> IPv4Network | IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as exc:
        raise Malformed(f"parameter address={text} is neither an address nor a prefix") from exc


def _limit(text: str) -> int:
    found = bounded(text, 1, MOST)
    if found is None:
        raise Malformed(f"parameter limit={text[:80]} is not a number from 1 to {MOST}")
    return found
