"""Small Worlds for tests: one tenant's network, pods by number, hosts by name."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.world import (
    FwdMode,
    HostPort,
    LocalEndpoint,
    Network,
    RemoteEndpoint,
    Vtep,
    World,
)

NET = NetworkId("net.default")
PEER = HostLabel("peer")
HOST_PORT = HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))


def ip_of(endpoint: LocalEndpoint | RemoteEndpoint) -> IPv4Address:
    """Return the IPv4 address of an endpoint that has one."""
    assert endpoint.ip is not None
    return endpoint.ip


def network(name: str = NET, *, vrf: int = 1, number: int = 1) -> Network:
    return Network(
        id=NetworkId(name),
        vrf=vrf,
        vlan=number,
        vni=10000 + number,
        gateway=IPv4Address(f"10.{number}.255.254"),
    )


def address(number: int, net: int = 1) -> IPv4Address:
    return IPv4Address(f"10.{net}.0.0") + number


def address6(number: int) -> IPv6Address:
    return IPv6Address((0xFD000001 << 96) + number)


def mac(number: int, net: int = 1) -> str:
    return f"02:02:0a:{net:02x}:{number >> 8:02x}:{number & 255:02x}"


def local(number: int, *, ofport: int = 0, nat: bool = True) -> LocalEndpoint:
    return LocalEndpoint(
        key=EndpointKey(f"{NET}-pod{number}"),
        network=NET,
        ofport=ofport or 100 + number,
        mac=mac(number),
        ip=address(number),
        nat_ip=IPv4Address("172.19.0.0") + number if nat else None,
    )


def remote(number: int, *, host: HostLabel = PEER, v6: bool = False) -> RemoteEndpoint:
    return RemoteEndpoint(
        key=EndpointKey(f"{NET}-pod{number}"),
        network=NET,
        host=host,
        mac=mac(number),
        ip=address(number),
        ip6=IPv6Address("2001:db8::") + number if v6 else None,
    )


def vtep(host: HostLabel = PEER, *, ofport: int = 2) -> Vtep:
    return Vtep(host=host, ip=IPv4Address("192.168.77.2"), ofport=ofport)


def world(
    *,
    here: tuple[LocalEndpoint, ...] = (),
    there: tuple[RemoteEndpoint, ...] = (),
    complete: bool = True,
) -> World:
    """Return a routed World with one network, one peer and a host port."""
    return World(
        fwd_mode=FwdMode.ROUTING,
        networks={NET: network()},
        local={endpoint.key: endpoint for endpoint in here},
        remote={endpoint.key: endpoint for endpoint in there},
        vteps={PEER: vtep()},
        host_port=HOST_PORT,
        complete=complete,
    )


def with_local(before: World, endpoint: LocalEndpoint) -> World:
    return replace(before, local={**before.local, endpoint.key: endpoint})


def without_local(before: World, key: EndpointKey) -> World:
    return replace(before, local={k: v for k, v in before.local.items() if k != key})
