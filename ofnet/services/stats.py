"""State and counters of services in the original's shapes (`/inspect/driver`). Pure.

`client_counters` sums up the flow statistics of a switch (`ofnet.channel.flow_stats`) by client,
service and provider. `proxy_state` is the state of the proxy: the services and their clients.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any, Final

from ofnet.channel.flow_stats import FlowEntry
from ofnet.openflow.oxm import PROTO_TCP
from ofnet.tables import TableId
from ofnet.world import Served, Service, ServicePort, World

_COUNTERS: Final = ("PacketsIn", "BytesIn", "PacketsOut", "BytesOut")


def client_counters(entries: Iterable[FlowEntry], tenants: Mapping[int, str]) -> dict[str, Any]:
    """Return the counters of each client by its address (`GetEndpointStats`).

    `tenants` maps VRF ids to tenant names. A client whose address another tenant's client has too
    is named `address:tenant`.
    """
    clients: dict[str, Any] = {}
    for entry in sorted(entries, key=lambda one: (one.vrf, one.table)):
        if entry.table == TableId.SRV_PROXY_DNAT and entry.set_port("dst"):
            _sent(clients, entry, tenants)
        elif entry.table == TableId.SRV_PROXY_SNAT and entry.set_port("src"):
            _received(clients, entry, tenants)
    return clients


def proxy_state(world: World, clients: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of the proxy (`InspectState`), with the counters of clients."""
    services = sorted(world.services.values(), key=lambda one: one.key)
    return {
        "Catalogue": {
            "SvcMap": {
                one.key: {"IpAddress": str(one.address), "Ports": _ports(one.ports)}
                for one in services
            },
            "ProvMap": {
                one.key: {"Providers": dict.fromkeys(map(str, sorted(one.providers)), True)}
                for one in services
            },
        },
        "OperState": _active(services, world.served.values()),
        "EpStats": dict(clients),
    }


def _active(services: Iterable[Service], served: Iterable[Served]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    clients: dict[tuple[str, IPv4Address], list[str]] = {}
    for one in served:
        clients.setdefault((one.service, one.provider), []).append(str(one.client))
    for service in services:
        if not service.providers:
            continue
        name = str(service.address)
        found[name if name not in found else f"{name}:{service.vrf}"] = {
            "Ports": _ports(service.ports),
            "ProvHdl": {
                str(provider): {
                    "ClientEPs": dict.fromkeys(
                        sorted(clients.get((service.key, provider), [])), True
                    )
                }
                for provider in sorted(service.providers)
            },
        }
    return found


def _sent(clients: dict[str, Any], entry: FlowEntry, tenants: Mapping[int, str]) -> None:
    client = _client(clients, entry, entry.address("ipv4_src"), tenants)
    service = _service(client, entry, entry.address("ipv4_dst"))
    service["SvcPort"] = str(entry.port("dst"))
    provider = _provider(service, entry.set_address("ipv4_dst"))
    provider["PacketsOut"] += entry.packets
    provider["BytesOut"] += entry.bytes


def _received(clients: dict[str, Any], entry: FlowEntry, tenants: Mapping[int, str]) -> None:
    client = _client(clients, entry, entry.address("ipv4_dst"), tenants)
    service = _service(client, entry, entry.set_address("ipv4_src"))
    service["ProvPort"] = str(entry.port("src"))
    provider = _provider(service, entry.address("ipv4_src"))
    provider["PacketsIn"] += entry.packets
    provider["BytesIn"] += entry.bytes


def _client(
    clients: dict[str, Any], entry: FlowEntry, address: IPv4Address, tenants: Mapping[int, str]
) -> dict[str, Any]:
    tenant = tenants.get(entry.vrf, "")
    name = str(address)
    if clients.get(name, {}).get("VrfName", tenant) != tenant:
        name = f"{name}:{tenant}"
    made = {
        "EndpointIP": str(address),
        "VrfName": tenant,
        "PortStats": _zero_counters(),
        "SvcStats": {},
    }
    client: dict[str, Any] = clients.setdefault(name, made)
    return client


def _service(client: dict[str, Any], entry: FlowEntry, address: IPv4Address) -> dict[str, Any]:
    made = {
        "ServiceIP": str(address),
        "ServiceVRF": client["VrfName"],
        "Protocol": _protocol(entry.protocol),
        "SvcPort": "",
        "ProvPort": "",
        "SvcStats": _zero_counters(),
        "ProvStats": {},
    }
    service: dict[str, Any] = client["SvcStats"].setdefault(str(address), made)
    return service


def _provider(service: dict[str, Any], address: IPv4Address) -> dict[str, Any]:
    made = {
        "ProviderIP": str(address),
        "ServiceIP": service["ServiceIP"],
        "ServiceVrf": service["ServiceVRF"],
        **_zero_counters(),
    }
    provider: dict[str, Any] = service["ProvStats"].setdefault(str(address), made)
    return provider


def _zero_counters() -> dict[str, int]:
    return dict.fromkeys(_COUNTERS, 0)


def _ports(ports: Iterable[ServicePort]) -> list[dict[str, Any]]:
    return [
        {
            "Protocol": _protocol(one.protocol),
            "SvcPort": one.port,
            "ProvPort": one.provider_port,
        }
        for one in ports
    ]


def _protocol(number: int) -> str:
    return "TCP" if number == PROTO_TCP else "UDP"
