"""State and counters of services in the original's shapes (`/inspect/driver`, `/svcstats`). Pure.

`service_counters` sums up the flow statistics of a switch (`ofnet.channel.flow_stats`) by tenant,
service and provider: no flow belongs to a client. `proxy_state` is what the switch offers.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, NamedTuple

from ofnet.channel.flow_stats import FlowEntry
from ofnet.openflow.oxm import PROTO_TCP
from ofnet.tables import TableId
from ofnet.world import Provider, Service, ServicePort, World

_COUNTERS: Final = ("PacketsIn", "BytesIn", "PacketsOut", "BytesOut")


class _End(NamedTuple):
    """Where packets are sent, or come from."""

    vrf: int
    protocol: int
    address: IPv4Address | IPv6Address | None
    port: int


def service_counters(
    world: World, entries: Iterable[FlowEntry], tenants: Mapping[int, str]
) -> dict[str, Any]:
    """Return the counters of services (`GetEndpointStats`), the clients of a tenant as one.

    `tenants` maps VRF ids to tenant names.
    """
    sent: dict[_End, FlowEntry] = {}
    received: dict[_End, FlowEntry] = {}
    for entry in entries:
        if entry.table == TableId.SRV_PROXY_DNAT and entry.port("dst"):
            end = _End(entry.vrf, entry.protocol, entry.address("dst"), entry.port("dst"))
            sent[end] = entry
        elif entry.table == TableId.SRV_PROXY_SNAT and entry.port("src"):
            end = _End(entry.vrf, entry.protocol, entry.address("src"), entry.port("src"))
            received[end] = entry
    out: dict[str, Any] = {}
    for service in sorted(world.services.values(), key=lambda one: one.key):
        for port in service.ports:
            for vrf, tenant in sorted(tenants.items()):
                asked = sent.get(_End(vrf, port.protocol, service.address, port.port))
                if asked is not None:
                    counted = _service(_clients(out, tenant), service, port)
                    _add(counted["SvcStats"], "Out", asked)
                    _providers(counted, vrf, port, received)
    return out


def proxy_state(world: World, counters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of the proxy (`InspectState`), with the counters of services."""
    services = sorted(world.services.values(), key=lambda one: one.key)
    return {
        "Catalogue": {
            "SvcMap": {
                one.key: {"IpAddress": str(one.address), "Ports": _ports(one)} for one in services
            },
            "ProvMap": {
                one.key: {"Providers": dict.fromkeys(map(str, _addresses(one)), True)}
                for one in services
            },
        },
        "OperState": _active(services),
        "EpStats": dict(counters),
    }


def _active(services: Iterable[Service]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for service in services:
        addresses = _addresses(service)
        if not addresses:
            continue
        name = str(service.address)
        found[name if name not in found else f"{name}:{service.vrf}"] = {
            "Ports": _ports(service),
            "ProvHdl": {str(address): {"ClientEPs": {}} for address in addresses},
        }
    return found


def _addresses(service: Service) -> list[IPv4Address | IPv6Address]:
    found = {one.address for port in service.ports for one in port.providers}
    return sorted(found, key=lambda address: (address.version, int(address)))


def _clients(out: dict[str, Any], tenant: str) -> dict[str, Any]:
    made = {"EndpointIP": "", "VrfName": tenant, "PortStats": _zero_counters(), "SvcStats": {}}
    clients: dict[str, Any] = out.setdefault(tenant, made)
    return clients


def _service(clients: dict[str, Any], service: Service, port: ServicePort) -> dict[str, Any]:
    made = {
        "ServiceIP": str(service.address),
        "ServiceVRF": clients["VrfName"],
        "Protocol": _protocol(port.protocol),
        "SvcPort": str(port.port),
        "ProvPort": _provider_port(port.providers),
        "SvcStats": _zero_counters(),
        "ProvStats": {},
    }
    counted: dict[str, Any] = clients["SvcStats"].setdefault(str(service.address), made)
    return counted


def _providers(
    counted: dict[str, Any], vrf: int, port: ServicePort, received: Mapping[_End, FlowEntry]
) -> None:
    for one in sorted(port.providers):
        entry = received.get(_End(vrf, port.protocol, one.address, one.port))
        if entry is not None:
            made = {
                "ProviderIP": str(one.address),
                "ServiceIP": counted["ServiceIP"],
                "ServiceVrf": counted["ServiceVRF"],
                **_zero_counters(),
            }
            _add(counted["ProvStats"].setdefault(str(one.address), made), "In", entry)
            _add(counted["SvcStats"], "In", entry)


def _add(counters: dict[str, Any], way: str, entry: FlowEntry) -> None:
    counters[f"Packets{way}"] += entry.packets
    counters[f"Bytes{way}"] += entry.bytes


def _zero_counters() -> dict[str, int]:
    return dict.fromkeys(_COUNTERS, 0)


def _ports(service: Service) -> list[dict[str, Any]]:
    return [
        {
            "Protocol": _protocol(one.protocol),
            "SvcPort": one.port,
            "ProvPort": int(_provider_port(one.providers) or 0),
        }
        for one in service.ports
    ]


def _provider_port(providers: Iterable[Provider]) -> str:
    """Return the port of the providers, the lowest of several; "" without any."""
    return str(min((one.port for one in providers), default=""))


def _protocol(number: int) -> str:
    return "TCP" if number == PROTO_TCP else "UDP"
