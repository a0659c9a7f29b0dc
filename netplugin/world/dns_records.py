"""The DNS names of endpoints and services on all hosts. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it the records of endpoints and services; `netplugin.dns.nameserver`
looks names up. A name is searched first among the services of Kubernetes, which all tenants share,
then in its tenant among services, groups, and the common names of containers and pods
(`nameserver.go`). Case does not matter (RFC 4343). Endpoint ids are no names; `report` alone shows
them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.ids import EndpointKey, ServiceKey, TenantName
from netplugin.world.kube_services import KubeService
from netplugin.world.network_tenants import NetworkTenants
from state.records import EndpointRecord, ServiceRecord

Address = IPv4Address | IPv6Address
_Name = tuple[TenantName, str]
_Holders = dict[_Name, dict[EndpointKey, EndpointRecord]]
KUBERNETES: Final = "k8sDefaultTenant"
"""The tenant under which the original lists the services of Kubernetes."""

_DOMAINS: Final = ("", ".svc", ".svc.cluster.local")
_KINDS: Final = ("commonNames", "endpointGroups", "endpoints", "services")


class DnsRecords:
    """The names of all endpoints and services; all addresses and networks can be read."""

    def __init__(self, tenants: NetworkTenants | None = None) -> None:
        self.tenants = tenants or NetworkTenants()
        """Tenants of networks. Endpoints are removed before one changes, and put again after."""
        self._endpoints: dict[EndpointKey, EndpointRecord] = {}
        self._services: dict[ServiceKey, ServiceRecord] = {}
        self._groups: _Holders = {}
        self._common: _Holders = {}
        self._served: dict[_Name, dict[ServiceKey, ServiceRecord]] = {}
        # Records come by the ten thousand when an agent starts, so addresses are read at the first
        # look-up. Pods may ask for a group of ten thousand without end, so the result is cached
        # until a record of that name changes.
        self._found: dict[_Name, dict[type[Address], Sequence[str]]] = {}
        self._kube: dict[str, KubeService] = {}
        self._kube_names: dict[str, dict[str, KubeService]] = {}

    def put_endpoint(self, record: EndpointRecord) -> None:
        """Add or replace an endpoint."""
        self.remove_endpoint(record.key)
        self._endpoints[record.key] = record
        for holders, name in self._names(record):
            holders.setdefault(name, {})[record.key] = record
            self._found.pop(name, None)

    def remove_endpoint(self, key: EndpointKey) -> None:
        """Remove an endpoint."""
        gone = self._endpoints.pop(key, None)
        for holders, name in self._names(gone) if gone is not None else ():
            self._found.pop(name, None)
            del holders[name][key]
            if not holders[name]:
                del holders[name]

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

    def put_kube_service(self, service: KubeService) -> None:
        """Add or replace a service of Kubernetes; one without an address has no name here."""
        self.remove_kube_service(service.key)
        if service.address is not None or service.address6 is not None:
            self._kube[service.key] = service
            for name in _kube_names(service):
                self._kube_names.setdefault(name, {})[service.key] = service

    def remove_kube_service(self, key: str) -> None:
        """Remove a service of Kubernetes."""
        gone = self._kube.pop(key, None)
        for name in _kube_names(gone) if gone is not None else ():
            del self._kube_names[name][key]
            if not self._kube_names[name]:
                del self._kube_names[name]

    def lookup(self, tenant: TenantName, name: str, family: type[Address]) -> Sequence[str] | None:
        """Return the addresses of a name; None if it does not exist.

        They are those of the first kind that has any of this family.
        """
        wanted = _name(tenant, name)
        kube = self._kube_names.get(name.lower())
        if kube is not None:
            return _kube_addresses(min(kube.values(), key=_rank), family)
        found = self._found.get(wanted, {}).get(family)
        if found is None and (found := self._search(wanted, family)) is not None:
            self._found.setdefault(wanted, {})[family] = found
        return found

    def _search(self, wanted: _Name, family: type[Address]) -> Sequence[str] | None:
        kinds = (self._served, self._groups, self._common)
        known = [holders for kind in kinds if (holders := kind.get(wanted)) is not None]
        for holders in known:
            found = [text for one in holders.values() if (text := _address(one, family))]
            if found:
                return found
        return [] if known else None

    def report(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Return all names by tenant and kind, as the original shows them."""
        tenants: dict[str, dict[str, dict[str, list[str]]]] = defaultdict(
            lambda: {kind: defaultdict(list) for kind in _KINDS}
        )
        tenants[KUBERNETES] = {"k8sServices": defaultdict(list)}
        for _, record in sorted(self._endpoints.items()):
            tenant = self.tenants.of(record.network)
            names = (_common_name(record), _group(record), record.endpoint_id)
            for kind, name in zip(_KINDS, names, strict=False):
                if name:
                    tenants[tenant][kind][name].append(_shown(record))
        for _, service in sorted(self._services.items()):
            tenants[service.tenant]["services"][service.name].append(_shown(service))
        for _, kube in sorted(self._kube.items()):
            tenants[KUBERNETES]["k8sServices"][kube.name].append(f"ipv4:{kube.address or '<nil>'}")
        return tenants

    def _names(self, record: EndpointRecord) -> Iterator[tuple[_Holders, _Name]]:
        tenant = self.tenants.of(record.network)
        if group := _group(record):
            yield self._groups, _name(tenant, group)
        if common := _common_name(record):
            yield self._common, _name(tenant, common)


def _kube_names(service: KubeService) -> list[str]:
    """Return the names of a service: its own, and with its namespace those of cluster DNS."""
    own = f"{service.name}.{service.namespace}".lower()
    return [service.name.lower(), *(f"{own}{domain}" for domain in _DOMAINS)]


def _rank(service: KubeService) -> tuple[bool, str]:
    """Of services of one name in several namespaces, that of `default` comes first."""
    return service.namespace != "default", service.namespace


def _kube_addresses(service: KubeService, family: type[Address]) -> list[str]:
    address = service.address if family is IPv4Address else service.address6
    return [str(address)] if address is not None else []


def _name(tenant: TenantName, name: str) -> _Name:
    return tenant, name.lower()


def _group(record: EndpointRecord) -> str:
    return record.group_key.partition(":")[0]


def _common_name(record: EndpointRecord) -> str:
    return record.common_name.removeprefix("/")  # docker's begin with it


def _address(record: EndpointRecord | ServiceRecord, family: type[Address]) -> str:
    if family is IPv4Address:
        return record.ip_address
    return record.ipv6_address if isinstance(record, EndpointRecord) else ""


def _shown(record: EndpointRecord | ServiceRecord) -> str:
    four, six = _address(record, IPv4Address), _address(record, IPv6Address)
    return f"ipv4:{four or '<nil>'} ipv6:{six or '<nil>'}"
