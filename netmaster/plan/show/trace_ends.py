"""Finds the two ends of a trace by name: endpoints, services, hosts, outside addresses. Pure.

In come the names a user wrote, the view and the tunnel addresses of hosts; out come the ends.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from core.addresses import Subnet
from core.errors import Invalid, NotFound
from core.ids import POD_NAMESPACE, EndpointKey, HostLabel
from netmaster.view import View
from state.records import Encap, EndpointRecord

SHORTEST_ID: Final = 8
"""Characters of a container's id that may stand for all of it."""
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEnd:
    """An end of a trace.

    `kind` is `endpoint`, `service`, `host`, `outside`, or `unused`: an address of a vxlan network
    that no endpoint has. `key` is the endpoint's, the service's or that network's.
    `host` is where an endpoint is, or the host itself. `addresses` may be of either family.
    `name` is what a pod or container is called, "" if it is not known.
    `vlan` is the tag of an endpoint's network on the physical network, 0 for none.
    """

    kind: str
    key: str = ""
    name: str = ""
    tenant: str = ""
    host: str = ""
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()
    mac: str = ""
    vlan: int = 0

    def address(self, version: int) -> IPv4Address | IPv6Address | None:
        """Return the address of a family."""
        return next((one for one in self.addresses if one.version == version), None)

    @property
    def text(self) -> str:
        """The end in words."""
        match self.kind:
            case "outside":
                return f"outside address {self.addresses[0]}"
            case "unused":
                return f"unused address {self.addresses[0]} of network {self.key}"
            case "host":
                return f"host {self.host}"
            case "service":
                return f"service {self.key}"
            case _:
                return f"endpoint {self.key} on host {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose names count: those of one tenant ("" for every one), and of `tenants` alone if given.

    `vteps` has the tunnel address of each host; names of hosts count without `tenants` only.
    """

    tenant: str = ""
    tenants: frozenset[str] | None = None
    vteps: Mapping[HostLabel, str]

    def has(self, tenant: str) -> bool:
        """Return whether names of a tenant count."""
        return self.tenant in {"", tenant} and (self.tenants is None or tenant in self.tenants)


def resolve(view: View, name: str, scope: Scope) -> TraceEnd:
    """Return the end of a name. Raises NotFound; Invalid for a name that several ends have.

    A name is, in this order: an endpoint's key; an address; the id of a container; `[tenant/]name`
    or `namespace/name` of a pod or container; `[tenant/]name` of a service; the label of a host.
    """
    record = view.endpoints.get(EndpointKey(name))
    if record is not None and scope.has(_tenant(view, record)):
        return _of_endpoint(view, record)
    address = _address(name)
    found = [
        *_endpoints(view, name, address, scope),
        *_services(view, name, address, scope),
        *_hosts(name, address, scope),
    ]
    if len(found) > 1:
        named = ", ".join(one.text for one in found[:_MOST_NAMED])
        raise Invalid(f"{name} may be {named}: name one by its key, or its tenant")
    if found:
        return found[0]
    if address is not None:
        return _unused(view, address, scope) or TraceEnd(kind="outside", addresses=(address,))
    raise NotFound(f"no endpoint, service or host is called {name}")


def _endpoints(
    view: View, name: str, address: IPv4Address | IPv6Address | None, scope: Scope
) -> Iterator[TraceEnd]:
    for record in view.endpoints.values():
        tenant = _tenant(view, record)
        if not scope.has(tenant):
            continue
        if address is not None:
            if address in _addresses(record.ip_address, record.ipv6_address):
                yield _of_endpoint(view, record)
        elif _is_called(record, tenant, name):
            yield _of_endpoint(view, record)


def _is_called(record: EndpointRecord, tenant: str, name: str) -> bool:
    if len(name) >= SHORTEST_ID and record.container_id.startswith(name):
        return True
    namespace = (record.labels or {}).get(POD_NAMESPACE, "")
    common = _common(record)
    return bool(common) and name.removeprefix("/") in {
        common,
        f"{tenant}/{common}",
        f"{namespace}/{common}",
    }


def _common(record: EndpointRecord) -> str:
    return record.common_name.removeprefix("/")  # docker's begin with it


def _services(
    view: View, name: str, address: IPv4Address | IPv6Address | None, scope: Scope
) -> Iterator[TraceEnd]:
    for service in view.services.values():
        if not scope.has(service.tenant):
            continue
        addresses = _addresses(service.ip_address)
        named = {service.key, service.name, f"{service.tenant}/{service.name}"}
        if address in addresses if address is not None else name in named:
            yield TraceEnd(
                kind="service", key=service.key, tenant=service.tenant, addresses=addresses
            )


def _hosts(
    name: str, address: IPv4Address | IPv6Address | None, scope: Scope
) -> Iterator[TraceEnd]:
    if scope.tenants is not None:
        return
    for label, text in scope.vteps.items():
        addresses = _addresses(text)
        if address in addresses if address is not None else name == label:
            yield TraceEnd(kind="host", host=label, addresses=addresses)


def _unused(view: View, address: IPv4Address | IPv6Address, scope: Scope) -> TraceEnd | None:
    """Return the end of an address that a network would give, unless it is the gateway's.

    On the physical network of a vlan network may be machines that are no endpoints.
    """
    for network in view.networks.values():
        if network.encap is not Encap.VXLAN or not scope.has(network.tenant):
            continue
        if address in _addresses(network.gateway, network.ipv6_gateway):
            return None
        if any(_holds(subnet, address) for subnet in network.subnets):
            return TraceEnd(
                kind="unused", key=network.id, tenant=network.tenant, addresses=(address,)
            )
    return None


def _holds(subnet: Subnet, address: IPv4Address | IPv6Address) -> bool:
    return subnet.bits == address.max_prefixlen and int(address) in subnet


def _of_endpoint(view: View, record: EndpointRecord) -> TraceEnd:
    network = view.networks.get(record.network)
    return TraceEnd(
        kind="endpoint",
        key=record.key,
        name=_common(record),
        tenant=_tenant(view, record),
        host=record.homing_host,
        addresses=_addresses(record.ip_address, record.ipv6_address),
        mac=record.mac_address,
        vlan=network.pkt_tag if network is not None and network.encap == "vlan" else 0,
    )


def _tenant(view: View, record: EndpointRecord) -> str:
    network = view.networks.get(record.network)
    return network.tenant if network is not None else ""


def _addresses(*texts: str) -> tuple[IPv4Address | IPv6Address, ...]:
    return tuple(one for text in texts if text and (one := _address(text)) is not None)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
