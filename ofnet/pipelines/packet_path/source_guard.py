"""The source guard: a pod sends only from its own addresses, and no DHCP offers or router adverts.

Flows of table 0 for each pod's port: allowed packets go to table 1, all others are dropped. The
guard is on unless an option of the agent turns it off; the original has none.
"""

# Invariant: with the guard on, every packet from a pod's port that enters the tables has the pod's
# own MAC and address. Source groups (table 1), VRFs and the NAT of services identify a sender by
# port or address and rely on it. The levels in table 0, lowest first:
#   GUARD         drop everything from the port
#   GUARD_PASS    pass packets with the pod's own MAC and address
#   GUARD_NEVER   drop what no pod may send, also from its own address: DHCP offers, router adverts
#   GUARD_EXCEPT  pass neighbour advertisements for the pod's own address
# ARP requests and DNS are intercepted at higher priorities, so the guard's flows do not see them.
# There the same check is part of the interception: in the match (`neighbours.arp_requests`) and in
# the agent (`ofnet.packets.packetin`). A new interception needs its own check too.

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Instructions, goto
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Priority, TableId
from ofnet.world import LocalEndpoint

DHCP_SERVER: Final = 67
DHCP6_SERVER: Final = 547
ROUTER_ADVERT: Final = 134

_LINK_LOCAL: Final = IPv6Network("fe80::/10")
_UNSPECIFIED4: Final = IPv4Address(0)
_UNSPECIFIED6: Final = IPv6Address("::")
_ON: Final = goto(TableId.VLAN)


def flows(endpoint: LocalEndpoint, *, layer2: bool, arp: bool) -> Iterator[Flow]:
    """Yield the guard of a pod's port.

    With `layer2` pods find neighbours by IPv6 multicast, with `arp` by ARP broadcast: requests and
    answers with the pod's own addresses pass then.
    """
    port: MatchFields = {"in_port": endpoint.ofport}
    own: MatchFields = {"in_port": endpoint.ofport, "eth_src": endpoint.mac}
    yield _flow(Priority.GUARD, port, DROP)
    if endpoint.ip is not None:
        yield from _flows4(endpoint.ip, own, port)
    if endpoint.ip6 is not None:
        yield from _flows6(endpoint.ip6, own, port)
        if layer2:
            yield from _neighbours6(endpoint.ip6, own)
    if arp and endpoint.ip is not None:
        request: MatchFields = {**own, "eth_type": oxm.ETH_ARP, "arp_sha": endpoint.mac}
        for sender in (endpoint.ip, _UNSPECIFIED4):
            yield _flow(Priority.GUARD_PASS, {**request, "arp_spa": sender})


def _flows4(address: IPv4Address, own: MatchFields, port: MatchFields) -> Iterator[Flow]:
    yield _flow(Priority.GUARD_PASS, {**own, "eth_type": oxm.ETH_IPV4, "ipv4_src": address})
    yield _flow(Priority.GUARD_NEVER, {**port, **_udp_from(oxm.ETH_IPV4, DHCP_SERVER)}, DROP)
    yield stages.returned_dns(ObjectKind.LOCAL, {**own, "ipv4_src": address})


def _flows6(address: IPv6Address, own: MatchFields, port: MatchFields) -> Iterator[Flow]:
    advert: MatchFields = {**port, **_icmp6(ROUTER_ADVERT)}
    yield _flow(Priority.GUARD_PASS, {**own, "eth_type": oxm.ETH_IPV6, "ipv6_src": address})
    yield _flow(Priority.GUARD_NEVER, {**port, **_udp_from(oxm.ETH_IPV6, DHCP6_SERVER)}, DROP)
    yield _flow(Priority.GUARD_NEVER, advert, DROP)
    # an advertisement from the pod for another pod's address
    claimed: MatchFields = {**port, **_icmp6(oxm.ND_ADVERT)}
    yield _flow(Priority.GUARD_NEVER, claimed, DROP)
    named: MatchFields = {**own, **_icmp6(oxm.ND_ADVERT), "ipv6_src": address, "nd_target": address}
    yield _flow(Priority.GUARD_EXCEPT, named)


def _neighbours6(address: IPv6Address, own: MatchFields) -> Iterator[Flow]:
    solicit: MatchFields = {**own, **_icmp6(oxm.ND_SOLICIT)}
    yield _flow(Priority.GUARD_PASS, {**solicit, "ipv6_src": _LINK_LOCAL})
    yield _flow(Priority.GUARD_PASS, {**solicit, "ipv6_src": _UNSPECIFIED6})
    advert: MatchFields = {**own, **_icmp6(oxm.ND_ADVERT), "ipv6_src": _LINK_LOCAL}
    yield _flow(Priority.GUARD_EXCEPT, {**advert, "nd_target": address})
    yield _flow(Priority.GUARD_EXCEPT, {**advert, "nd_target": _LINK_LOCAL})


def _udp_from(eth_type: int, port: int) -> MatchFields:
    return {"eth_type": eth_type, "ip_proto": oxm.PROTO_UDP, "udp_src": port}


def _icmp6(kind: int) -> MatchFields:
    return {"eth_type": oxm.ETH_IPV6, "ip_proto": oxm.PROTO_ICMP6, "icmpv6_type": kind}


def _flow(priority: Priority, fields: MatchFields, instructions: Instructions = _ON) -> Flow:
    return Flow(ObjectKind.LOCAL, TableId.INPUT, priority, Match(**fields), instructions)
