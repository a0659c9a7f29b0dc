"""The DNS names of endpoints and services on all hosts. Pure: no I/O, no clock.

It follows the records of endpoints (`netplugin.world.cluster_endpoints.endpoint_table`) and of
services; `netplugin.dns.nameserver` looks names up. A name is searched first among those of
Kubernetes (`netplugin.world.dns.kube_names`), which all tenants share, though each sees only its
own pods behind a headless service. It is then searched in its tenant among services, groups, and
the common names of containers and pods (`nameserver.go`): the first of these kinds that has the
name has it alone, in both families. No name with a dot, and none that means something to others, is
looked for there (`netplugin.world.dns.bare_names`). Common names of pods of Kubernetes hold within
their namespace, for that is whose author could make a service of the name as well; those of
containers within all that has no namespace. Of several containers of a name those on the asker's
network come first. Case does not matter (RFC 4343). Endpoint ids are no names; `report` alone shows
them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.ids import POD_NAMESPACE, EndpointKey, NetworkId, ServiceKey, TenantName
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow, EndpointTable
from netplugin.world.dns.bare_names import ALIASES, is_bare
from netplugin.world.dns.kube_names import CLUSTER_DOMAIN, EXISTS, KubeNames, NameRecords
from netplugin.world.kubernetes.kube_services import KubeTarget
from state.records import EndpointRecord, ServiceRecord

Address = IPv4Address | IPv6Address
_Name = tuple[TenantName, str, str]
"""Tenant, name in lower case, and of a common name the namespace in Kubernetes."""

_Holders = dict[_Name, dict[EndpointKey, EndpointRecord]]
KUBERNETES: Final = "k8sDefaultTenant"
"""The tenant under which the original lists the services of Kubernetes."""

_KINDS: Final = ("commonNames", "endpointGroups", "endpoints", "services")


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for a name: `namespace` is "" outside of Kubernetes."""

    tenant: TenantName
    network: NetworkId | None = None
    namespace: str = ""


class DnsRecords:
    """The names of all endpoints and services; all addresses and networks can be read."""

    def __init__(self, endpoints: EndpointTable, zone: str = CLUSTER_DOMAIN) -> None:
        self.endpoints = endpoints
        """The endpoints whose names these are; to be read."""
        self._services: dict[ServiceKey, ServiceRecord] = {}
        self._groups: _Holders = {}
        self._common: _Holders = {}
        self._served: dict[_Name, dict[ServiceKey, ServiceRecord]] = {}
        # Records come by the ten thousand when an agent starts, so addresses are read at the first
        # look-up. Pods may ask for a group of ten thousand without end, so the result is cached
        # until a record of that name changes.
        self._found: dict[_Name, dict[type[Address], Sequence[str]]] = {}
        self.kube = KubeNames(zone)
        """The names of Kubernetes' services, for all tenants."""

    def update_endpoint(self, old: EndpointRow | None, new: EndpointRow | None) -> None:
        """Replace the names of an endpoint."""
        for holders, name, record in self._names(old):
            self._found.pop(name, None)
            del holders[name][record.key]
            if not holders[name]:
                del holders[name]
        for holders, name, record in self._names(new):
            holders.setdefault(name, {})[record.key] = record
            self._found.pop(name, None)

    def put_service(self, record: ServiceRecord) -> None:
        """Add or replace a service."""
        name = _name(record.tenant, record.name)
        self._services[record.key] = record
        self._served.setdefault(name, {})[record.key] = record
        self._found.pop(name, None)

    def remove_service(self, key: ServiceKey) -> None:
        """Remove a service."""
        gone = self._services.pop(key, None)
        if gone is not None:
            name = _name(gone.tenant, gone.name)
            self._found.pop(name, None)
            del self._served[name][key]
            if not self._served[name]:
                del self._served[name]

    def asker(self, pod: EndpointKey, network: NetworkId) -> Asker:
        """Return who asks, by the endpoint and network that a question came from."""
        record = self.endpoints.get(pod)
        return Asker(
            self.endpoints.tenant_of(network), network, _namespace(record) if record else ""
        )

    def of_kubernetes(self, asker: Asker, name: str) -> NameRecords | None:
        """Return the records of a name of Kubernetes, as the asker sees them; None without it.

        Of the endpoints behind a headless service a tenant sees its own, and what is no pod.
        """
        tenant = asker.tenant
        found = self.kube.lookup(name.lower(), asker.namespace)
        if found is None or found is EXISTS:
            return found
        return replace(
            found,
            members=tuple(one for one in found.members if self._visible(tenant, one)),
            servers=tuple(one for one in found.servers if self._visible(tenant, one.member)),
            pointers=tuple(one for one in found.pointers if self._visible(tenant, one[1])),
        )

    def _visible(self, tenant: TenantName, target: KubeTarget | None) -> bool:
        """Return whether an endpoint is a pod of the tenant, or no pod of any tenant."""
        if target is None:
            return True
        # Tenants' addresses overlap: of several pods that have the address, its name tells which.
        holders = self.endpoints.at(str(target.address))
        pod = target.pod.rpartition("/")[2]
        named = [one for one in holders if one.record.common_name == pod] or holders
        return not named or any(one.tenant == tenant for one in named)

    def lookup(self, asker: Asker, name: str, family: type[Address]) -> Sequence[str] | None:
        """Return the addresses of a name; None if it does not exist, whichever the family."""
        kube = self.of_kubernetes(asker, name)
        if kube is not None:
            return _kube_addresses(kube, family)
        wanted = _name(asker.tenant, name)
        if not is_bare(wanted[1], self.kube.zone):
            return None
        # An object of a later kind has nothing of the name, in no family: a container would
        # otherwise answer for IPv6 in the name of a service that has IPv4 alone.
        if holders := self._served.get(wanted) or self._groups.get(wanted):
            found = self._found.setdefault(wanted, {})
            if family not in found:
                found[family] = _addresses(holders.values(), family)
            return found[family]
        named = self._common.get(_name(asker.tenant, name, asker.namespace), {}).values()
        near = [one for one in named if one.network == asker.network]
        return _addresses(near or named, family) if named else None

    def report(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Return all names by tenant and kind, as the original shows them."""
        tenants: dict[str, dict[str, dict[str, list[str]]]] = defaultdict(
            lambda: {kind: defaultdict(list) for kind in _KINDS}
        )
        tenants[KUBERNETES] = {"k8sServices": defaultdict(list)}
        for record, tenant in self.endpoints.all():
            kinds = (_own_names(record), [_group(record)], [record.endpoint_id])
            for kind, names in zip(_KINDS, kinds, strict=False):
                for name in filter(None, names):
                    tenants[tenant][kind][name].append(_shown(record))
        for _, service in sorted(self._services.items()):
            tenants[service.tenant]["services"][service.name].append(_shown(service))
        for _, kube in sorted(self.kube.services.items()):
            if kube.addresses:
                (four,) = _of_family(kube.addresses, IPv4Address) or ("<nil>",)
                tenants[KUBERNETES]["k8sServices"][kube.name].append(f"ipv4:{four}")
        return tenants

    def _names(
        self, endpoint: EndpointRow | None
    ) -> Iterator[tuple[_Holders, _Name, EndpointRecord]]:
        if endpoint is not None:
            record, tenant = endpoint
            if group := _group(record):
                yield self._groups, _name(tenant, group), record
            names = {_name(tenant, text, _namespace(record)) for text in _own_names(record)}
            yield from ((self._common, name, record) for name in names)


def _kube_addresses(records: NameRecords, family: type[Address]) -> list[str]:
    members = (one.address for one in records.members)
    return _of_family((*records.addresses, *members), family)


def _of_family(addresses: Iterable[Address], family: type[Address]) -> list[str]:
    return [str(one) for one in addresses if isinstance(one, family)]


def _name(tenant: TenantName, name: str, namespace: str = "") -> _Name:
    return tenant, name.lower(), namespace


def _addresses(
    holders: Iterable[EndpointRecord | ServiceRecord], family: type[Address]
) -> list[str]:
    return [text for one in holders if (text := _address(one, family))]


def _group(record: EndpointRecord) -> str:
    return record.group_key.partition(":")[0]


def _namespace(record: EndpointRecord) -> str:
    return (record.labels or {}).get(POD_NAMESPACE, "")


def _own_names(record: EndpointRecord) -> list[str]:
    """Return the common name and the aliases."""
    common = record.common_name.removeprefix("/")  # docker's begin with it
    aliases = (record.labels or {}).get(ALIASES, "").split()
    return [name for name in dict.fromkeys([common, *aliases]) if name]


def _address(record: EndpointRecord | ServiceRecord, family: type[Address]) -> str:
    if isinstance(record, ServiceRecord):  # it has one address, of either family
        of6 = ":" in record.ip_address
        return record.ip_address if of6 is (family is IPv6Address) else ""
    return record.ip_address if family is IPv4Address else record.ipv6_address


def _shown(record: EndpointRecord | ServiceRecord) -> str:
    four, six = _address(record, IPv4Address), _address(record, IPv6Address)
    return f"ipv4:{four or '<nil>'} ipv6:{six or '<nil>'}"
