"""Reports a bridge in the shape of the original's `/inspect/driver`. Pure.

A World has no creation times and no counters of objects: times are Go's zero time, and only the
counters that this agent keeps are reported.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from core.ids import split_network_id
from ofnet.openflow.oxm import mac_bytes
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.services.stats import proxy_state
from ofnet.tables import Mode
from ofnet.world import FwdMode, LocalEndpoint, Network, RemoteEndpoint, World

INTERNAL: Final = 2
"""The original's bit for an endpoint inside the cluster."""

ENDPOINTS: Final = "EndpointDb"
"""The member of a bridge's object that has its endpoints."""

_NO_TIME: Final = "0001-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """The agent's tunnel address, its RPC port and its masters."""

    local_ip: str = ""
    port: int = 0
    masters: Mapping[str, int] = field(default_factory=dict)
    """RPC port by address."""


def bridge_report(
    world: World,
    mode: Mode,
    identity: AgentIdentity,
    *,
    connected: bool,
    stats: Mapping[str, int],
    counters: Mapping[str, Any],
    endpoints: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the JSON object of one bridge; `counters` has those of services.

    `endpoints` are shown in place of the `endpoint_entries` of the World.
    """
    vrfs = _vrfs(world)
    return {
        "LocalIp": identity.local_ip,
        "MyPort": identity.port,
        "MyAddr": identity.local_ip,
        "IsConnected": connected,
        "DpName": str(mode),
        "Protopath": {} if mode is Mode.VLROUTER else None,
        "MasterDb": {
            f"{address}:{port}": {"HostAddr": address, "HostPort": port}
            for address, port in identity.masters.items()
        },
        "VtepTable": {str(vtep.ip): vtep.ofport for vtep in world.vteps.values()},
        ENDPOINTS: dict(endpoint_entries(world, identity) if endpoints is None else endpoints),
        "VrfNameIdMap": {name: entry["VrfId"] for name, entry in vrfs.items()},
        "VrfDb": vrfs,
        "FwdMode": str(world.fwd_mode),
        "ArpMode": str(world.arp_mode),
        "Stats": dict(sorted(stats.items())),
        "ErrStats": {},
        "Datapath": _datapath(mode, proxy_state(world, counters)),
    }


def endpoint_entries(world: World, identity: AgentIdentity) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and entry of each endpoint of the bridge, each name once. They may be many."""
    seen: set[str] = set()
    for entry in _endpoints(world, identity):
        name = entry["EndpointID"]
        if name not in seen:
            seen.add(name)
            yield name, entry


def _endpoints(world: World, identity: AgentIdentity) -> Iterator[dict[str, Any]]:
    for network in world.networks.values():
        # in bridge mode the gateway is on the physical network
        if network.gateway is not None and world.fwd_mode is FwdMode.ROUTING:
            yield _entry(network, network.gateway)
    endpoints: list[LocalEndpoint | RemoteEndpoint] = [*world.local.values()]
    endpoints += world.remote.values()
    for endpoint in endpoints:
        home = world.networks.get(endpoint.network)
        if home is None:
            continue
        origin = identity.local_ip
        if isinstance(endpoint, RemoteEndpoint):
            vtep = world.vteps.get(endpoint.host)
            origin = str(vtep.ip) if vtep is not None else ""
        address = endpoint.ip or endpoint.ip6
        if address is not None:
            yield _entry(home, address, endpoint, origin=origin)


def _entry(
    network: Network,
    address: IPv4Address | IPv6Address,
    endpoint: LocalEndpoint | RemoteEndpoint | None = None,
    *,
    origin: str = "",
) -> dict[str, Any]:
    vrf = _vrf_name(network)
    ip6 = endpoint.ip6 if endpoint is not None else None
    return {
        "EndpointID": f"{address}:{vrf}",
        "EndpointType": INTERNAL,
        "EndpointGroup": endpoint.group_id if endpoint is not None else 0,
        "IpAddr": str(address) if address.version == 4 else "",
        "IpMask": "255.255.255.255" if address.version == 4 else "",
        "Ipv6Addr": str(ip6) if ip6 is not None else "",
        "Ipv6Mask": ":".join(["ffff"] * 8) if ip6 is not None else "",
        "Vrf": vrf,
        "MacAddrStr": endpoint.mac if endpoint is not None else "",
        "Vlan": network.vlan,
        "Vni": network.vni,
        "EndpointGroupVlan": network.vlan if endpoint is not None else 0,
        "OriginatorIp": origin,
        "OriginatorMac": "",
        "Timestamp": _NO_TIME,
    }


def _vrfs(world: World) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for network in world.networks.values():
        name = _vrf_name(network)
        entry = out.setdefault(name, {"VrfName": name, "VrfId": network.vrf, "NumNetworks": 0})
        entry["NumNetworks"] += 1
    return dict(sorted(out.items()))


def _vrf_name(network: Network) -> str:
    _, tenant = split_network_id(network.id)
    return tenant


def tenants(world: World) -> dict[int, str]:
    """Return the names of tenants by VRF id."""
    return {network.vrf: _vrf_name(network) for network in world.networks.values()}


def _datapath(mode: Mode, services: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"PolicyAgent": {"Rules": {}}, "SvcProxy": services}
    if mode is Mode.VROUTER:
        out["MyRouterMac"] = base64.b64encode(mac_bytes(ROUTER_MAC)).decode()
    return out
