"""The records of all endpoints, each once, with the indexes by which they are looked for. Pure.

`netplugin.world.graph` puts records and says which nodes get each change. A node is a function of
`(old, new)`; None stands for an endpoint that is not there. It is called after the table has
changed, so that it finds in the indexes what it is told.
"""

# A row has the tenant of its endpoint's network. The id `<network>.<tenant>` alone is ambiguous,
# because both names may contain dots: until the network's record is known, the tenant is the part
# after the last dot. When another tenant comes out, each endpoint of the network is replaced by one
# with that tenant. To nodes this is a change like any other, so that what they keep by tenant goes
# from the one to the other.

import sys
from collections.abc import Callable, Iterator, Set
from ipaddress import IPv6Address
from typing import Generic, NamedTuple, TypeVar

from core.collections.multimap import Multimap
from core.ids import (
    POD_NAME,
    POD_NAMESPACE,
    EndpointKey,
    HostLabel,
    NetworkId,
    TenantName,
    split_network_id,
)
from state.records import EndpointRecord, NetworkRecord

_V = TypeVar("_V")

PodKey = tuple[str, str]
"""Namespace and name."""


class EndpointRow(NamedTuple):
    """An endpoint, and the tenant of its network."""

    record: EndpointRecord
    tenant: TenantName


Node = Callable[[EndpointRow | None, EndpointRow | None], object]
"""Gets an endpoint as it was and as it is; at least one of them is there."""


class Index(Generic[_V]):
    """The keys of endpoints by a value, of which an endpoint may have none, one or several."""

    def __init__(self, values: Callable[[EndpointRow], tuple[_V, ...]]) -> None:
        self._values = values
        self._keys = Multimap[_V, EndpointKey]()

    def keys(self, value: _V) -> Set[EndpointKey]:
        """Return the keys of the endpoints that have a value."""
        return self._keys.names(value)

    def update(self, key: EndpointKey, old: EndpointRow | None, new: EndpointRow | None) -> None:
        """Replace an endpoint."""
        before = () if old is None else self._values(old)
        after = () if new is None else self._values(new)
        if before != after:
            for value in before:
                self._keys.discard(value, key)
            for value in after:
                self._keys.add(value, key)


class EndpointTable:
    """The endpoints of the cluster. Records have been checked before they are put."""

    def __init__(self, host: HostLabel) -> None:
        self._tenants: dict[NetworkId, TenantName] = {}
        """Those that `split_network_id` does not find."""
        self._rows: dict[EndpointKey, EndpointRow] = {}
        self._nodes: tuple[Node, ...] = ()
        self._by_network = Index[NetworkId](lambda one: (one.record.network,))
        self._by_address = Index[str](lambda one: addresses_of(one.record))
        self._by_pod = Index[PodKey](lambda one: pods_of(one.record))
        self._labelled = Index[TenantName](lambda one: (one.tenant,) if one.record.labels else ())
        self._here = Index[None](lambda one: (None,) if one.record.homing_host == host else ())

    def feed(self, *nodes: Node) -> None:
        """Have nodes called at each change, in this order."""
        self._nodes = nodes

    # -- changes -------------------------------------------------------------------------------

    def put(self, record: EndpointRecord) -> None:
        """Add or replace an endpoint."""
        self._replace(record.key, self.row_of(record))

    def remove(self, key: EndpointKey) -> None:
        """Remove an endpoint; one that is not known is passed over."""
        if key in self._rows:
            self._replace(key, None)

    def put_network(self, record: NetworkRecord) -> None:
        """Set the tenant of a network, and with it that of its endpoints."""
        self._set_tenant(record.id, record.tenant)

    def remove_network(self, nid: NetworkId) -> None:
        """Forget the tenant of a network: what its id tells holds again."""
        self._set_tenant(nid, split_network_id(nid)[1])

    def _set_tenant(self, nid: NetworkId, tenant: TenantName) -> None:
        if tenant != self.tenant_of(nid):
            self._tenants.pop(nid, None)
            if tenant != self.tenant_of(nid):
                self._tenants[nid] = tenant
            for key in tuple(self.keys_on(nid)):
                self.put(self._rows[key].record)

    def _replace(self, key: EndpointKey, new: EndpointRow | None) -> None:
        old = self._rows.get(key)
        if new is not None:
            self._rows[key] = new
        else:
            del self._rows[key]
        for index in (
            self._by_network,
            self._by_address,
            self._by_pod,
            self._labelled,
            self._here,
        ):
            index.update(key, old, new)
        for node in self._nodes:
            node(old, new)

    # -- what is known -------------------------------------------------------------------------

    def row_of(self, record: EndpointRecord) -> EndpointRow:
        """Return a record with the tenant of its network."""
        return EndpointRow(record, TenantName(sys.intern(self.tenant_of(record.network))))

    def tenant_of(self, nid: NetworkId) -> TenantName:
        """Return the tenant of a network, as far as its id tells while it has no record."""
        return self._tenants.get(nid) or split_network_id(nid)[1]

    def get(self, key: EndpointKey) -> EndpointRecord | None:
        """Return the record of an endpoint, None if it is not known here."""
        row = self._rows.get(key)
        return None if row is None else row.record

    def all(self) -> Iterator[EndpointRow]:
        """Yield all endpoints in the order of their keys."""
        for _, row in sorted(self._rows.items()):
            yield row

    def of_id(self, endpoint_id: str) -> list[EndpointRecord]:
        """Return the records of an endpoint id on any network; slow, for there is no such index."""
        records = (row.record for row in self._rows.values())
        return [one for one in records if one.endpoint_id == endpoint_id]

    def keys_on(self, nid: NetworkId) -> Set[EndpointKey]:
        """Return the keys of a network's endpoints."""
        return self._by_network.keys(nid)

    def here(self) -> list[EndpointRecord]:
        """Return the records of this host's endpoints."""
        return [self._rows[key].record for key in sorted(self._here.keys(None))]

    def at(self, address: str) -> list[EndpointRow]:
        """Return the endpoints that have an address, of every tenant."""
        return [self._rows[key] for key in self._by_address.keys(address)]

    def of_pod(self, pod: PodKey) -> list[EndpointRow]:
        """Return the endpoints of a pod: its interfaces."""
        return [self._rows[key] for key in self._by_pod.keys(pod)]

    def labelled(self, tenant: TenantName) -> list[EndpointRow]:
        """Return the endpoints of a tenant that have labels."""
        return [self._rows[key] for key in self._labelled.keys(tenant)]


def addresses_of(record: EndpointRecord) -> tuple[str, ...]:
    """Return the addresses of an endpoint as `str` has them."""
    four, six = record.ip_address, record.ipv6_address
    if not six:
        return (four,) if four else ()
    return (four, str(IPv6Address(six))) if four else (str(IPv6Address(six)),)


def pods_of(record: EndpointRecord) -> tuple[PodKey, ...]:
    """Return the pod of an endpoint; nothing for an endpoint that is no pod's."""
    labels = record.labels
    if not labels:
        return ()
    namespace, name = labels.get(POD_NAMESPACE, ""), labels.get(POD_NAME, "")
    return ((namespace, name),) if namespace and name else ()
