"""Lists of endpoints by what they have, a page at a time. Pure.

In come the query parameters of a request (`netmaster.api.endpoint_list`) and the view; out comes a
page of endpoints in the order of their keys, and where the next page begins. A page is read from
the view as it is at that moment: an endpoint that stays is shown once, whatever comes and goes
between two pages.
"""

import heapq
import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final, NamedTuple

from core import ids
from core.errors import Malformed
from core.ids import EndpointKey, GroupKey, HostLabel, NetworkName, TenantName
from core.numbers import bounded
from netmaster.view import View
from state.records import EndpointRecord, NetworkRecord

LIMIT: Final = 500
"""Endpoints of a page unless a request asks for fewer or more."""
MOST: Final = 5000

Shown = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointQuery:
    """What is asked for: endpoints that have all of this; "" and None stand for any value.

    `address` is a network that holds one of the endpoint's addresses; `after` is the key that the
    page begins behind; `tenants` are those the client may see.
    """

    tenant: str = ""
    network: str = ""
    group: str = ""
    host: str = ""
    container: str = ""
    labels: tuple[tuple[str, str | None], ...] = ()
    address: IPv4Network | IPv6Network | None = None
    limit: int = LIMIT
    after: str = ""
    tenants: frozenset[str] | None = field(default=None, metadata={"asked": False})


class Page(NamedTuple):
    """Endpoints in the order of their keys, and the key to go on behind; "" at the end."""

    items: list[Shown]
    next: str


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
    return EndpointQuery(**read)


def page(view: View, wanted: EndpointQuery) -> Page:
    """Return the first endpoints that a query asks for."""
    found = (
        key for key in _candidates(view, wanted) if key > wanted.after and _fits(view, key, wanted)
    )
    first = heapq.nsmallest(wanted.limit + 1, found)
    more = len(first) > wanted.limit
    keys = first[: wanted.limit]
    return Page([shown(view, view.endpoints[key]) for key in keys], keys[-1] if more else "")


def shown(view: View, record: EndpointRecord) -> Shown:
    """Return an endpoint as API v2 shows it."""
    network = view.networks.get(record.network)
    return {
        "key": record.key,
        "tenant": network.tenant if network else "",
        "network": network.name if network else record.network,
        "group": record.group_key.partition(":")[0],
        "host": record.homing_host,
        "vtep": record.vtep_ip,
        "addresses": [one for one in (record.ip_address, record.ipv6_address) if one],
        "mac": record.mac_address,
        "container": record.container_id,
        "containerName": record.common_name,
        "endpointID": record.endpoint_id,
        "interface": record.intf_name,
        "labels": dict(record.labels or {}),
    }


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
