"""The source guard: a pod sends only from its own addresses, and is nobody's DHCP server or router.

Flows of table 0, below the interception of ARP and DNS and above everything else: what a pod may
send goes on to table 1, the rest ends here. It is on unless a host's agent is told otherwise; the
original has none.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Instructions, goto
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines import stages
from ofnet.tables import Priority, TableId
from ofnet.world import LocalEndpoint

DHCP_SERVER: Final = 67
DHCP6_SERVER: Final = 547
ROUTER_ADVERT: Final = 134

_LINK_LOCAL: Final = IPv6Network("fe80::/10")
_NOBODY4: Final = IPv4Address(0)
_NOBODY6: Final = IPv6Address("::")
_ON: Final = goto(TableId.VLAN)


def flows(endpoint: LocalEndpoint, *, layer2: bool, arp: bool) -> Iterator[Flow]:
    """Yield the guard of a pod's port.

    With `layer2` neighbours find each other by multicast, and with `arp` by broadcast: then their
    questions and answers pass too, in the pod's own name.
    """
    port: MatchFields = {"in_port": endpoint.ofport}
    own: MatchFields = {"in_port": endpoint.ofport, "eth_src": endpoint.mac}
    yield _flow(Priority.GUARD, port, DROP)
    yield _flow(Priority.GUARD_PASS, {**own, "eth_type": oxm.ETH_IPV4, "ipv4_src": endpoint.ip})
    yield _flow(Priority.GUARD_NEVER, {**port, **_udp_from(oxm.ETH_IPV4, DHCP_SERVER)}, DROP)
    yield stages.returned_dns(ObjectKind.LOCAL, {**own, "ipv4_src": endpoint.ip})
    if endpoint.ip6 is not None:
        yield from _flows6(endpoint.ip6, own, port)
        if layer2:
            yield from _neighbours6(endpoint.ip6, own)
    if arp:
        asked: MatchFields = {**own, "eth_type": oxm.ETH_ARP, "arp_sha": endpoint.mac}
        for sender in (endpoint.ip, _NOBODY4):
            yield _flow(Priority.GUARD_PASS, {**asked, "arp_spa": sender})


def _flows6(address: IPv6Address, own: MatchFields, port: MatchFields) -> Iterator[Flow]:
    advert: MatchFields = {**port, **_icmp6(ROUTER_ADVERT)}
    yield _flow(Priority.GUARD_PASS, {**own, "eth_type": oxm.ETH_IPV6, "ipv6_src": address})
    yield _flow(Priority.GUARD_NEVER, {**port, **_udp_from(oxm.ETH_IPV6, DHCP6_SERVER)}, DROP)
    yield _flow(Priority.GUARD_NEVER, advert, DROP)
    # an advertisement in the pod's name for somebody else's address
    claimed: MatchFields = {**port, **_icmp6(oxm.ND_ADVERT)}
    yield _flow(Priority.GUARD_NEVER, claimed, DROP)
    named: MatchFields = {**own, **_icmp6(oxm.ND_ADVERT), "ipv6_src": address, "nd_target": address}
    yield _flow(Priority.GUARD_EXCEPT, named)


def _neighbours6(address: IPv6Address, own: MatchFields) -> Iterator[Flow]:
    solicit: MatchFields = {**own, **_icmp6(oxm.ND_SOLICIT)}
    yield _flow(Priority.GUARD_PASS, {**solicit, "ipv6_src": _LINK_LOCAL})
    yield _flow(Priority.GUARD_PASS, {**solicit, "ipv6_src": _NOBODY6})
    advert: MatchFields = {**own, **_icmp6(oxm.ND_ADVERT), "ipv6_src": _LINK_LOCAL}
    yield _flow(Priority.GUARD_EXCEPT, {**advert, "nd_target": address})
    yield _flow(Priority.GUARD_EXCEPT, {**advert, "nd_target": _LINK_LOCAL})


def _udp_from(eth_type: int, port: int) -> MatchFields:
    return {"eth_type": eth_type, "ip_proto": oxm.PROTO_UDP, "udp_src": port}


def _icmp6(kind: int) -> MatchFields:
    return {"eth_type": oxm.ETH_IPV6, "ip_proto": oxm.PROTO_ICMP6, "icmpv6_type": kind}


def _flow(priority: Priority, fields: MatchFields, instructions: Instructions = _ON) -> Flow:
    return Flow(ObjectKind.LOCAL, TableId.INPUT, priority, Match(**fields), instructions)
