"""Random Worlds of a bridge, and packets that have to do with them, for hypothesis.

There are few ports, hosts, networks, groups and addresses, so that packets meet what is there.
"""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any, Final

from hypothesis import strategies as st

from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId
from ofnet.openflow import oxm
from ofnet.openflow.fields import Flags
from ofnet.pipelines.packet_path.stages import DNS_RETURN_VLAN, ROUTER_MAC
from ofnet.trace.evaluator import PacketFields, Value
from ofnet.world import (
    AccessPort,
    ArpMode,
    FwdMode,
    HostPort,
    LocalEndpoint,
    ManagementPort,
    Network,
    PolicyClass,
    Provider,
    RemoteEndpoint,
    Rule,
    Service,
    ServicePort,
    Uplink,
    Vtep,
    World,
)

HOSTS: Final = {HostLabel("h2"): 2, HostLabel("h3"): 3}
"""The other hosts with their tunnel ports."""

HOST_PORT: Final = HostPort(ofport=1, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
HOST_WITH_PATHS: Final = replace(HOST_PORT, sources=frozenset({IPv4Address("8.8.8.8")}))
ACCESS: Final = {
    number: AccessPort(
        ofport=200 + number,
        mac=f"02:02:00:00:00:{number:02x}",
        ip=IPv4Address(f"172.19.0.{number}"),
    )
    for number in (1, 2)
}
"""Pods' interfaces to the host, with the MAC of a pod, so that packets meet them."""
UPLINKS: Final = (
    Uplink(ofport=30, mac="52:54:00:00:00:0a"),
    Uplink(ofport=31, mac="52:54:00:00:00:0b"),
)
PEER_MACS: Final = {HostLabel("h2"): "52:54:00:00:00:0c", HostLabel("h3"): "52:54:00:00:00:0d"}
PODS: Final = range(1, 7)
PORTS: Final = (1, 2, 3, 30, 31, *(100 + number for number in PODS), 201, 202)
GROUPS: Final = (0, 7, 8)
CLASSES: Final = {GroupKey(f"g{one}:t1"): PolicyClass(one, 7) for one in (7, 8)}
"""Both groups have the same policies."""
NETWORKS: Final = tuple(
    Network(
        id=NetworkId(f"n{number}.t{vrf}"),
        vrf=vrf,
        vlan=number,
        vni=10_000 + number,
        gateway=IPv4Address(f"10.{net}.0.254"),
        gateway6=IPv6Address(f"2001:db8:{net}::fe"),
    )
    for number, vrf, net in ((1, 1, 1), (2, 1, 2), (3, 2, 1))
)
"""Two networks of one tenant, and one of another tenant with the addresses of the first."""


def mac(number: int) -> str:
    return f"02:02:00:00:00:{number:02x}"


def address(net: int, number: int) -> IPv4Address:
    return IPv4Address(f"10.{net}.0.{number}")


def address6(net: int, number: int) -> IPv6Address:
    return IPv6Address(f"2001:db8:{net}::{number:x}")


def _net(network: Network) -> int:
    assert network.gateway is not None
    return network.gateway.packed[1]


_RULE_ENDS: Final[tuple[dict[str, int], ...]] = (
    *({"src_group": one, "dst_group": other} for one in GROUPS for other in GROUPS),
    *({"src_class": 7, "dst_group": other} for other in GROUPS),
    *({"src_group": other, "dst_class": 7} for other in GROUPS),
)
_ACCESS: Final = st.sampled_from(sorted(ACCESS))
_NETS: Final = st.sampled_from([1, 2])
_SOMETIMES: Final = st.booleans()
_MOSTLY: Final = st.sampled_from([True, True, True, False])


@st.composite
def _rules(draw: st.DrawFn) -> Rule:
    blocks: tuple[IPv4Network | IPv6Network | None, ...] = (None, IPv4Network("10.1.0.0/30"))
    if draw(st.booleans()):
        blocks = (None, IPv6Network("2001:db8:1::/126"))
    protocol = draw(st.sampled_from([0, oxm.PROTO_ICMP, oxm.PROTO_TCP, oxm.PROTO_UDP]))
    ends: dict[str, Any] = draw(st.sampled_from(_RULE_ENDS))
    return Rule(
        id=draw(st.uuids()).hex,
        priority=draw(st.integers(1, 100)),
        allow=draw(st.booleans()),
        **ends,
        source=draw(st.sampled_from(blocks)),
        destination=draw(st.sampled_from(blocks)),
        protocol=protocol,
        src_port=draw(st.sampled_from([0, 80])),
        dst_port=draw(st.sampled_from([0, 53, 80])),
        tcp_flags=draw(st.sampled_from([None, Flags(0x02, 0x12)])),
        audit=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def _local(draw: st.DrawFn, number: int) -> LocalEndpoint:
    network = draw(st.sampled_from(NETWORKS))
    net = _net(network)
    return LocalEndpoint(
        key=EndpointKey(f"{network.id}-{number}"),
        network=network.id,
        ofport=100 + number,
        mac=mac(number),
        ip=address(net, number),
        ip6=draw(st.sampled_from([None, address6(net, number)])),
        routed=draw(st.sampled_from([frozenset(), frozenset({address(net, number)})])),
        group_id=draw(st.sampled_from(GROUPS)),
        dscp=draw(st.sampled_from([0, 10])),
        nat_ip=draw(st.sampled_from([None, IPv4Address(f"172.19.0.{number}")])),
    )


@st.composite
def _remote(draw: st.DrawFn, number: int) -> RemoteEndpoint:
    network = draw(st.sampled_from(NETWORKS))
    net = _net(network)
    return RemoteEndpoint(
        key=EndpointKey(f"{network.id}-{number}"),
        network=network.id,
        host=draw(st.sampled_from(sorted(HOSTS))),
        mac=mac(draw(st.sampled_from([number, number + 0x40]))),
        ip=address(net, number),
        ip6=draw(st.sampled_from([None, address6(net, number)])),
        group_id=draw(st.sampled_from(GROUPS)),
    )


HTTP: Final = (oxm.PROTO_TCP, 80)
TALK: Final = (oxm.PROTO_UDP, 547)
SERVICES: Final = {
    key: (vrf, IPv4Address(vip))
    for key, vrf, vip in (
        ("web:t1", 1, "10.1.0.200"),
        ("web:t2", 2, "10.1.0.200"),
        ("api", 0, "10.254.0.10"),
    )
}
"""VRF and address of services: of two tenants with one address, and of all tenants."""


@st.composite
def _service(draw: st.DrawFn, key: str) -> Service:
    vrf, vip = SERVICES[key]
    addresses = st.builds(address, _NETS, st.sampled_from(PODS))
    providers = st.frozensets(
        st.builds(Provider, addresses, st.just(4000), st.sampled_from([0, 1, 2])), max_size=3
    )
    protocols = draw(st.sampled_from([(HTTP,), (TALK,), (HTTP, TALK)]))
    return Service(
        key=key,
        vrf=vrf,
        address=vip,
        ports=tuple(ServicePort(*port, draw(providers)) for port in protocols),
        affinity=draw(st.sampled_from([0, 60])),
    )


MANAGEMENT: Final = {
    text: ip_network(text) for text in ("8.8.8.8/32", "10.1.0.77/32", "2001:db8:1::4d/128")
}
MANAGEMENT_PORTS: Final = {
    f"{protocol}/{port}": ManagementPort(protocol, port)
    for protocol in (oxm.PROTO_TCP, oxm.PROTO_UDP)
    for port in (80, 53)
}


@st.composite
def worlds(draw: st.DrawFn, fwd_mode: FwdMode) -> World:
    """Return a World; some of its pods are known both here and elsewhere, as those that moved.

    They may have another MAC there, as pods whose address was given out anew.
    """
    some = st.lists(st.sampled_from(PODS), unique=True, max_size=4)
    local = [draw(_local(number)) for number in draw(some)]
    remote = [draw(_remote(number)) for number in draw(some)]
    services = [draw(_service(key)) for key in SERVICES]
    return World(
        fwd_mode=fwd_mode,
        arp_mode=draw(st.sampled_from(list(ArpMode))),
        networks={network.id: network for network in NETWORKS},
        local={endpoint.key: endpoint for endpoint in local},
        remote={endpoint.key: endpoint for endpoint in remote},
        vteps={
            host: Vtep(host=host, ip=IPv4Address(f"192.0.2.{port}"), ofport=port)
            for host, port in HOSTS.items()
        },
        host_port=draw(st.sampled_from([None, HOST_PORT, HOST_WITH_PATHS])),
        access={
            EndpointKey(f"access-{n}"): ACCESS[n] for n in draw(st.sets(st.sampled_from([1, 2])))
        },
        uplinks=UPLINKS[: draw(st.integers(0, 2))],
        peer_macs=PEER_MACS,
        rules={rule.id: rule for rule in draw(st.lists(_rules(), max_size=5))},
        policy_classes=CLASSES,
        services={one.key: one for one in services},
        management=draw(st.sampled_from([{}, MANAGEMENT])),
        management_ports=MANAGEMENT_PORTS,
        guard=draw(st.booleans()),
        complete=True,
    )


_MACS: Final = st.sampled_from(
    [*(mac(number) for number in PODS), ROUTER_MAC, HOST_PORT.mac, UPLINKS[0].mac]
)
_TO_MACS: Final = _MACS | st.sampled_from(["ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01"])
_FROM_MACS: Final = _MACS | st.just("01:00:5e:00:00:01")
_ENDS: Final = st.sampled_from([*PODS, 77, 254])
_ADDRESSES: Final = st.builds(address, _NETS, _ENDS) | st.sampled_from(
    [
        *(IPv4Address(0), IPv4Address("172.19.0.1"), IPv4Address("8.8.8.8")),
        *(vip for _, vip in SERVICES.values()),
    ]
)
_ADDRESSES6: Final = st.builds(address6, _NETS, _ENDS) | st.sampled_from(
    [IPv6Address("::"), IPv6Address("fe80::1"), IPv6Address("ff02::1")]
)
_NOTHING_FOLLOWS: Final = 59
"""A protocol of IPv6 without a header of its own. (0 would make Open vSwitch lose the DSCP.)"""

_TRANSPORT_PORTS: Final = st.sampled_from([53, 67, 80, 547, 4000])
_FLAGS: Final = st.sampled_from([0x02, 0x12, 0x10, 0x11])
_Fields = dict[str, Value]


@st.composite
def packets(draw: st.DrawFn) -> PacketFields:
    """Return a packet on some port; mostly in the name of the pod behind it."""
    port = draw(st.sampled_from(PORTS))
    own = port - 100 if port > 100 and draw(st.integers(0, 3)) else 0
    fields: _Fields = {
        "in_port": port,
        "eth_src": mac(own) if own else draw(_FROM_MACS),
        "eth_dst": draw(_TO_MACS),
    }
    if port in HOSTS.values():
        fields["tunnel_id"] = draw(st.sampled_from([network.vni for network in NETWORKS]))
    bodies = [_ipv4, _ipv4, _ipv6, _ipv6, _arp, _solicit, _answered, _answered]
    body = draw(st.sampled_from(bodies))
    tags = draw(st.sampled_from([(), (), (), (1,), (2,), (3,), (DNS_RETURN_VLAN,)]))
    return PacketFields({**fields, **draw(body(own))}, tags)


@st.composite
def _ends4(draw: st.DrawFn, own: int) -> _Fields:
    return {
        "eth_type": oxm.ETH_IPV4,
        "ipv4_src": address(draw(_NETS), own) if own else draw(_ADDRESSES),
        "ipv4_dst": draw(_ADDRESSES),
    }


@st.composite
def _ipv4(draw: st.DrawFn, own: int) -> _Fields:
    return {**draw(_ends4(own)), **draw(_transport(oxm.PROTO_ICMP))}


@st.composite
def _answered(draw: st.DrawFn, own: int) -> _Fields:
    """Return a packet as a provider answers."""
    protocol, port = draw(st.sampled_from([HTTP, TALK]))
    kind = "tcp" if protocol == oxm.PROTO_TCP else "udp"
    talk: _Fields = {f"{kind}_src": 4000, f"{kind}_dst": draw(st.sampled_from([port, 53]))}
    flags: _Fields = {"tcp_flags": 0x02} if kind == "tcp" else {}
    return {**draw(_ends4(own)), "ip_proto": protocol, **talk, **flags}


@st.composite
def _ipv6(draw: st.DrawFn, own: int) -> _Fields:
    fields: _Fields = {
        "eth_type": oxm.ETH_IPV6,
        "ipv6_src": address6(draw(_NETS), own) if own else draw(_ADDRESSES6),
        "ipv6_dst": draw(_ADDRESSES6),
    }
    if draw(st.booleans()):
        return {**fields, **draw(_transport(_NOTHING_FOLLOWS))}
    kind = draw(st.sampled_from([128, 133, 134, oxm.ND_ADVERT]))
    fields |= {"ip_proto": oxm.PROTO_ICMP6, "icmpv6_type": kind, "icmpv6_code": 0}
    if kind == oxm.ND_ADVERT:
        fields["nd_target"] = draw(_ADDRESSES6)
        fields["nd_tll"] = draw(_MACS)
    return fields


@st.composite
def _transport(draw: st.DrawFn, other: int) -> _Fields:
    protocol = draw(st.sampled_from([oxm.PROTO_TCP, oxm.PROTO_UDP, other, 47]))
    fields: _Fields = {"ip_proto": protocol}
    if protocol == oxm.PROTO_TCP:
        fields |= {"tcp_src": draw(_TRANSPORT_PORTS), "tcp_dst": draw(_TRANSPORT_PORTS)}
        fields["tcp_flags"] = draw(_FLAGS)
    elif protocol == oxm.PROTO_UDP:
        fields |= {"udp_src": draw(_TRANSPORT_PORTS), "udp_dst": draw(_TRANSPORT_PORTS)}
    return fields


@st.composite
def _arp(draw: st.DrawFn, own: int) -> _Fields:
    return {
        "eth_type": oxm.ETH_ARP,
        "arp_op": draw(st.sampled_from([1, 1, 2])),
        "arp_spa": address(draw(_NETS), own) if own else draw(_ADDRESSES),
        "arp_tpa": draw(_ADDRESSES),
        "arp_sha": mac(own) if own else draw(_MACS),
        "arp_tha": "00:00:00:00:00:00",
    }


@st.composite
def _solicit(draw: st.DrawFn, own: int) -> _Fields:
    return {
        "eth_type": oxm.ETH_IPV6,
        "ipv6_src": address6(draw(_NETS), own) if own else draw(_ADDRESSES6),
        "ipv6_dst": IPv6Address("ff02::1"),
        "ip_proto": oxm.PROTO_ICMP6,
        "icmpv6_type": oxm.ND_SOLICIT,
        "icmpv6_code": 0,
        "nd_target": draw(_ADDRESSES6),
        "nd_sll": mac(own) if own else draw(_MACS),
    }
