"""The packets a trace begins with, and packets as JSON. Pure.

In come an endpoint of the World and whom it talks to; out comes the packet as the endpoint sends
it, or the question for its neighbour's MAC that goes before. `fields_of` and `packet_of` are the
form in which a packet goes from one host's trace to the next.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import chain
from typing import Any, Final

from core.errors import Invalid
from ofnet.openflow import oxm
from ofnet.pipelines.features.service_nat import service_mac
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.trace.evaluator import PacketFields, Value
from ofnet.world import (
    ArpMode,
    FwdMode,
    HostPort,
    LocalEndpoint,
    Network,
    RemoteEndpoint,
    World,
)

Address = IPv4Address | IPv6Address
Link = Mapping[str, Value]

SYN: Final = 0x02
SYN_ACK: Final = 0x12
CLIENT_PORT: Final = 40000
"""The port of a client, unless a trace names one."""

NOBODY: Final = "0e:00:00:00:00:01"
"""The MAC address in place of one that only the physical network knows."""

_ECHO: Final = {oxm.PROTO_ICMP: (8, 0), oxm.PROTO_ICMP6: (128, 129)}
"""The types of request and answer."""
_PORTS: Final = {oxm.PROTO_TCP: "tcp", oxm.PROTO_UDP: "udp", oxm.PROTO_SCTP: "sctp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Whom a packet is for, and of which protocol; ports count for TCP, UDP and SCTP."""

    to: Address
    protocol: int = oxm.PROTO_ICMP
    port: int = 0
    source_port: int = CLIENT_PORT


def from_endpoint(world: World, endpoint: LocalEndpoint, talk: Talk) -> PacketFields | None:
    """Return what an endpoint sends by its port; None if it has no address of that family."""
    source = endpoint.ip if talk.to.version == 4 else endpoint.ip6
    if source is None:
        return None
    mac = neighbour_mac(world, endpoint, talk.to)
    link: Link = {"in_port": endpoint.ofport, "eth_src": endpoint.mac, "eth_dst": mac}
    return _packet(link, source, talk)


def by_access(
    world: World, beside: World, endpoint: LocalEndpoint, talk: Talk
) -> PacketFields | None:
    """Return what an endpoint sends by its own interface to the host; None if it does not use it.

    That is the way out for endpoints on networks without a gateway
    (`ofnet.pipelines.features.host_access`). `beside` is the World of the bridge that has these
    interfaces.
    """
    access, port = beside.access.get(endpoint.key), beside.host_port
    network = world.networks.get(endpoint.network)
    if access is None or port is None or network is None or network.gateway or talk.to.version == 6:
        return None
    if _is_beside(world, network, talk.to):
        return None
    link: Link = {"in_port": access.ofport, "eth_src": access.mac, "eth_dst": port.mac}
    return _packet(link, access.ip, talk)


def from_host(port: HostPort, talk: Talk, source: Address | None = None) -> PacketFields | None:
    """Return what the host sends by its port, itself or, from another `source`, for the outside.

    None if it has no address of that family.
    """
    sources = sorted(port.sources, key=str) if source is None else [source]
    source = next((one for one in sources if _same(one, talk.to)), None)
    if source is None:
        return None
    link: Link = {"in_port": port.ofport, "eth_src": port.mac, "eth_dst": ROUTER_MAC}
    return _packet(link, source, talk)


def question(endpoint: LocalEndpoint, asked: Address) -> PacketFields | None:
    """Return an endpoint's question for the MAC of a neighbour; None without such an address."""
    if isinstance(asked, IPv4Address):
        if endpoint.ip is None:
            return None
        return PacketFields(
            {
                "in_port": endpoint.ofport,
                "eth_src": endpoint.mac,
                "eth_dst": "ff:ff:ff:ff:ff:ff",
                "eth_type": oxm.ETH_ARP,
                "arp_op": 1,
                "arp_spa": endpoint.ip,
                "arp_tpa": asked,
                "arp_sha": endpoint.mac,
                "arp_tha": "00:00:00:00:00:00",
            }
        )
    if endpoint.ip6 is None:
        return None
    low = asked.packed[-3:]
    return PacketFields(
        {
            "in_port": endpoint.ofport,
            "eth_src": endpoint.mac,
            "eth_dst": "33:33:ff:" + low.hex(":"),
            "eth_type": oxm.ETH_IPV6,
            "ipv6_src": endpoint.ip6,
            "ipv6_dst": IPv6Address(_SOLICITED + low),
            "ip_proto": oxm.PROTO_ICMP6,
            "icmpv6_type": oxm.ND_SOLICIT,
            "icmpv6_code": 0,
            "nd_target": asked,
            "nd_sll": endpoint.mac,
        }
    )


_SOLICITED: Final = IPv6Address("ff02::1:ff00:0").packed[:13]


def neighbour_of(world: World, endpoint: LocalEndpoint, to: Address) -> Address:
    """Return whose MAC an endpoint needs for an address: its own, or the gateway's."""
    network = world.networks.get(endpoint.network)
    if network is None or _is_beside(world, network, to):
        return to
    gateway = network.gateway if to.version == 4 else network.gateway6
    return gateway or to


def neighbour_mac(world: World, endpoint: LocalEndpoint, to: Address) -> str:
    """Return the MAC address to which an endpoint sends packets for an address."""
    if world.fwd_mode is FwdMode.ROUTING:
        return ROUTER_MAC
    network = world.networks.get(endpoint.network)
    asked = neighbour_of(world, endpoint, to)
    holder = endpoint_at(world, network, asked) if network is not None else None
    if holder is not None:
        return holder.mac
    if any(service.address == asked for service in world.services.values()):
        proxied = asked.version == 4 and world.arp_mode is ArpMode.PROXY
        return service_mac(asked) if proxied else ROUTER_MAC if asked.version == 6 else NOBODY
    return NOBODY


def endpoint_at(
    world: World, network: Network, address: Address
) -> LocalEndpoint | RemoteEndpoint | None:
    """Return the endpoint that has an address in the VRF of a network; one of this host first."""
    known: Iterable[LocalEndpoint | RemoteEndpoint] = chain(
        world.local.values(), world.remote.values()
    )
    for endpoint in known:
        home = world.networks.get(endpoint.network)
        if home is not None and home.vrf == network.vrf and address in {endpoint.ip, endpoint.ip6}:
            return endpoint
    return None


def _is_beside(world: World, network: Network, address: Address) -> bool:
    """Return whether an address is on a network itself, not behind its gateway."""
    holder = endpoint_at(world, network, address)
    if holder is not None:
        return holder.network == network.id
    if any(address in block for block in network.granted if block.version == address.version):
        return True
    gateway = network.gateway if address.version == 4 else network.gateway6
    beside = any(service.address == address for service in world.services.values())
    return beside and gateway is None


def answer(packet: PacketFields, port: int) -> PacketFields:
    """Return the answer of whom a packet was delivered to, by a port. Raises ValueError."""
    fields = {name: one for name, one in packet.fields.items() if not name.startswith(_OF_SWITCH)}
    for one, other in _TURNED:
        first, second = fields.pop(one, None), fields.pop(other, None)
        if first is not None:
            fields[other] = first
        if second is not None:
            fields[one] = second
    protocol = packet.number("ip_proto")
    if protocol in _ECHO:
        kind = "icmp_type" if protocol == oxm.PROTO_ICMP else "icmpv6_type"
        fields[kind] = _ECHO[protocol][1]
    if protocol == oxm.PROTO_TCP:
        fields["tcp_flags"] = SYN_ACK
    return PacketFields({**fields, "in_port": port}, packet.tags)


_OF_SWITCH: Final = ("metadata", "ct_", "reg")
"""The beginnings of the names of what a packet has within a switch alone."""

_TURNED: Final = tuple(
    (f"{kind}_src", f"{kind}_dst") for kind in ("eth", "ipv4", "ipv6", "tcp", "udp", "sctp")
)


def _packet(link: Link, source: Address, talk: Talk) -> PacketFields:
    fields: dict[str, Value] = dict(link)
    kind = "ipv4" if talk.to.version == 4 else "ipv6"
    protocol = talk.protocol
    if protocol in _ECHO:
        protocol = oxm.PROTO_ICMP if talk.to.version == 4 else oxm.PROTO_ICMP6
    fields |= {
        "eth_type": oxm.ETH_IPV4 if talk.to.version == 4 else oxm.ETH_IPV6,
        f"{kind}_src": source,
        f"{kind}_dst": talk.to,
        "ip_proto": protocol,
    }
    if protocol in _ECHO:
        prefix = "icmp" if talk.to.version == 4 else "icmpv6"
        fields |= {f"{prefix}_type": _ECHO[protocol][0], f"{prefix}_code": 0}
    if protocol in _PORTS:
        name = _PORTS[protocol]
        fields |= {f"{name}_src": talk.source_port, f"{name}_dst": talk.port}
    if protocol == oxm.PROTO_TCP:
        fields["tcp_flags"] = SYN
    return PacketFields(fields)


def _same(one: Address, other: Address) -> bool:
    return one.version == other.version


# -- as JSON -----------------------------------------------------------------------------------

_MAC: Final = frozenset({"eth_src", "eth_dst"})
_NUMBERS: Final = {
    "in_port": 0xFFFF,
    "tunnel_id": 0xFFFFFF,
    "eth_type": 0xFFFF,
    "ip_proto": 0xFF,
    "ip_dscp": 0x3F,
    "tcp_flags": 0xFFF,
    **dict.fromkeys(("icmp_type", "icmp_code", "icmpv6_type", "icmpv6_code"), 0xFF),
    **{f"{kind}_{end}": 0xFFFF for kind in _PORTS.values() for end in ("src", "dst")},
}
"""The numbers a packet on its way between hosts may have, with the greatest value of each."""
_ADDRESSES: Final = {
    **dict.fromkeys(("ipv4_src", "ipv4_dst"), 4),
    **dict.fromkeys(("ipv6_src", "ipv6_dst"), 6),
}


def fields_of(packet: PacketFields) -> dict[str, Any]:
    """Return the JSON object of a packet: what is in its frame, its port and its tunnel's id."""
    known = (_NUMBERS.keys() | _ADDRESSES.keys() | _MAC) & packet.fields.keys()
    values = ((name, packet.fields[name]) for name in sorted(known))
    shown: dict[str, Any] = {
        name: value if isinstance(value, int) else str(value) for name, value in values
    }
    return {**shown, "vlans": list(packet.tags)}


def packet_of(shown: object) -> PacketFields:
    """Return the packet of a JSON object of `fields_of`. Raises Invalid."""
    if not isinstance(shown, Mapping):
        raise Invalid("a packet must be an object of fields")
    fields: dict[str, Value] = {}
    for name, value in shown.items():
        if name != "vlans":
            fields[name] = _read(name, value)
    tags = shown.get("vlans", [])
    if not isinstance(tags, list) or len(tags) > 1 or not all(_is_number(t, 4095) for t in tags):
        raise Invalid("vlans of a packet must be a list of at most one number of a VLAN")
    if not {"eth_src", "eth_dst", "eth_type"} <= fields.keys():
        raise Invalid("a packet must have eth_src, eth_dst and eth_type")
    return PacketFields(fields, tuple(tags))


def _read(name: str, value: object) -> Value:
    if name in _NUMBERS and isinstance(value, int) and _is_number(value, _NUMBERS[name]):
        return value
    readers: dict[str, Callable[[str], Value]] = {
        **dict.fromkeys(_MAC, _mac),
        **dict.fromkeys(_ADDRESSES, ip_address),
    }
    if name in readers and isinstance(value, str):
        try:
            found = readers[name](value)
        except ValueError as exc:
            raise Invalid(f"{name} of a packet: {exc}") from exc
        if getattr(found, "version", None) == _ADDRESSES.get(name):
            return found
    raise Invalid(f"a packet cannot have {str(name)[:32]}={str(value)[:64]}")


def _mac(text: str) -> str:
    return oxm.mac_bytes(text).hex(":")


def _is_number(value: object, greatest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= greatest
