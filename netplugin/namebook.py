"""Who has which name, on all hosts. Pure: no I/O, no clock.

`netplugin.world` feeds it the records of endpoints and services; `netplugin.nameserver` looks names
up. A name belongs to a tenant and is looked for among services, then groups, then the common names
of containers and pods (`nameserver.go`); case does not matter (RFC 4343). Endpoint ids are no
names, they are shown only.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, NamedTuple

from core.ids import EndpointKey, ServiceKey, TenantName, split_network_id
from state.records import EndpointRecord, ServiceRecord

Address = IPv4Address | IPv6Address
_Owner = tuple[type[EndpointRecord | ServiceRecord], str]


class Kind(StrEnum):
    """What a name is of, as the original's JSON calls it."""

    SERVICE = "services"
    GROUP = "endpointGroups"
    COMMON = "commonNames"
    ENDPOINT = "endpoints"


_LOOKED_FOR: Final = (Kind.SERVICE, Kind.GROUP, Kind.COMMON)


class _Name(NamedTuple):
    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class _Named:
    """What a record says: these names have these addresses."""

    tenant: TenantName
    names: tuple[_Name, ...]
    four: IPv4Address | None
    six: IPv6Address | None = None


@dataclass(frozen=True, slots=True)
class _Holders:
    """Who has a name, by family of addresses."""

    all: set[_Owner] = field(default_factory=set)
    four: dict[_Owner, IPv4Address] = field(default_factory=dict)
    six: dict[_Owner, IPv6Address] = field(default_factory=dict)


class NameBook:
    """The names of all endpoints and services."""

    def __init__(self) -> None:
        self._named: dict[_Owner, _Named] = {}
        self._holders: dict[tuple[TenantName, Kind, str], _Holders] = {}

    def put_endpoint(self, record: EndpointRecord) -> None:
        """Learn or replace an endpoint, whose addresses and network can be read."""
        self._put(
            (EndpointRecord, record.key),
            _Named(
                split_network_id(record.network)[1],
                tuple(_names(record)),
                IPv4Address(record.ip_address) if record.ip_address else None,
                IPv6Address(record.ipv6_address) if record.ipv6_address else None,
            ),
        )

    def remove_endpoint(self, key: EndpointKey) -> None:
        """Forget an endpoint."""
        self._remove((EndpointRecord, key))

    def put_service(self, record: ServiceRecord) -> None:
        """Learn or replace a service, whose address can be read."""
        address = IPv4Address(record.ip_address) if record.ip_address else None
        names = (_Name(Kind.SERVICE, record.name),)
        self._put((ServiceRecord, record.key), _Named(record.tenant, names, address))

    def remove_service(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._remove((ServiceRecord, key))

    def lookup(
        self, tenant: TenantName, name: str, family: type[Address]
    ) -> Collection[Address] | None:
        """Return the addresses of a name; None if nobody has it.

        They are those of the first kind that has any of this family.
        """
        text = name.lower()
        known = [
            holders
            for kind in _LOOKED_FOR
            if (holders := self._holders.get((tenant, kind, text))) is not None
        ]
        found = (one.four if family is IPv4Address else one.six for one in known)
        return next((held.values() for held in found if held), ()) if known else None

    def report(self) -> dict[str, Any]:
        """Return all names by tenant and kind, as the original shows them."""
        tenants: dict[str, dict[Kind, dict[str, list[str]]]] = defaultdict(
            lambda: {kind: defaultdict(list) for kind in sorted(Kind)}
        )
        for _, named in sorted(self._named.items(), key=lambda item: item[0][1]):
            text = f"ipv4:{named.four or '<nil>'} ipv6:{named.six or '<nil>'}"
            for kind, name in named.names:
                tenants[named.tenant][kind][name].append(text)
        return tenants

    def _put(self, owner: _Owner, named: _Named) -> None:
        if self._named.get(owner) == named:
            return
        self._remove(owner)
        self._named[owner] = named
        for kind, text in named.names:
            holders = self._holders.setdefault((named.tenant, kind, text.lower()), _Holders())
            holders.all.add(owner)
            if named.four is not None:
                holders.four[owner] = named.four
            if named.six is not None:
                holders.six[owner] = named.six

    def _remove(self, owner: _Owner) -> None:
        named = self._named.pop(owner, None)
        if named is None:
            return
        for kind, text in named.names:
            place = (named.tenant, kind, text.lower())
            holders = self._holders[place]
            for held in (holders.four, holders.six):
                held.pop(owner, None)
            holders.all.discard(owner)
            if not holders.all:
                del self._holders[place]


def _names(record: EndpointRecord) -> Iterator[_Name]:
    names = (
        _Name(Kind.GROUP, record.group_key.partition(":")[0]),
        _Name(Kind.COMMON, record.common_name.removeprefix("/")),  # docker's begin with it
        _Name(Kind.ENDPOINT, record.endpoint_id),
    )
    return (name for name in names if name.text)
