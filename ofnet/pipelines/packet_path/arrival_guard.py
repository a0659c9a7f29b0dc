"""The arrival guard drops packets from other hosts with spoofed sources.

Flows of table 2, the receiving half of the source guard
(`ofnet.pipelines.packet_path.source_guard`), and on with it. By a tunnel comes what the endpoints
of that tunnel's host send, and nothing else. By an uplink comes no packet in the name of an address
that the cluster grants, unless an endpoint on another host has it. Claims of addresses, by ARP and
neighbour discovery, are held to the same. The original has nothing like it.
"""

# An address without an endpoint is refused, although its record may only be late (ADR 6). On routed
# networks nothing is lost by that: the way back needs the same record. The same holds for an
# endpoint that moved: until its record says so, the answers go to the host it left. On bridged
# vxlan networks both might find each other by flooding, and now wait for the record.
#
# Tunnels and uplinks differ, because beyond an uplink there are others than the cluster's: routers,
# and machines on the VLAN. Theirs are the sources outside of what a network grants
# (`Network.granted`), and its gateway. An uplink does not tell which host sent a frame either.
#
# What the levels of table 2 are for, lowest first:
#   PORT         what comes from outside in no granted name passes, past all rules (`ingress_group`)
#   GRANTED      a granted address that no endpoint elsewhere has: dropped
#   MATCH        an endpoint elsewhere; a network's gateway
#   ABOVE_MATCH  advertisements claim an address that is not their source: dropped
#   EXEMPT       advertisements of an endpoint's own address
#
# One more may send by a tunnel: the host at its other end, by its own address. The flow for it
# belongs to the tunnel's port (kind VTEP): level MATCH, by `in_port` and source.

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Instructions, goto
from ofnet.openflow.fields import RX_VTEP, VRF, Bits
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Priority, TableId
from ofnet.world import Network, RemoteEndpoint

_ON: Final = goto(TableId.SRV_PROXY_SNAT)
_ARRIVED: Final = RX_VTEP.put(1)
_LINK_LOCAL: Final = IPv6Network("fe80::/10")
_UNSPECIFIED4: Final = IPv4Address(0)
_UNSPECIFIED6: Final = IPv6Address("::")


def origin(vrf: int, in_port: int | None) -> MatchFields:
    """Return the match of what arrives in a VRF, by one tunnel's port or by any way."""
    arrived: MatchFields = {"metadata": VRF.put(vrf) | _ARRIVED}
    return arrived if in_port is None else {**arrived, "in_port": in_port}


def neighbours() -> Iterator[Flow]:
    """Yield the flows for neighbour discovery by tunnels, where pods' networks are bridged.

    It may come from no address, or from link-local ones, which no record has. An endpoint's own
    address is advertised by its host alone (`claims`).
    """
    arrived: MatchFields = {"metadata": _ARRIVED}
    advert: MatchFields = {**arrived, **_ADVERT}
    solicit: MatchFields = {**arrived, **_icmp6(oxm.ND_SOLICIT)}
    kind = ObjectKind.PIPELINE
    yield _flow(kind, Priority.ABOVE_MATCH, advert, DROP)
    yield _flow(kind, Priority.EXEMPT, {**advert, "nd_target": _LINK_LOCAL})
    for source in (_LINK_LOCAL, _UNSPECIFIED6):
        yield _flow(kind, Priority.PORT, {**solicit, "ipv6_src": source})
    # who asks whether an address is in use claims none
    probe: MatchFields = {**arrived, "eth_type": oxm.ETH_ARP, "arp_spa": _UNSPECIFIED4}
    yield _flow(kind, Priority.PORT, probe)


def claims(endpoint: RemoteEndpoint, arrived: MatchFields) -> Iterator[Flow]:
    """Yield the flows that pass an endpoint's ARP and advertisements; `arrived` is its `origin`."""
    if endpoint.ip is not None:
        named: MatchFields = {
            **arrived,
            "eth_type": oxm.ETH_ARP,
            "arp_spa": endpoint.ip,
            "arp_sha": endpoint.mac,
        }
        yield _flow(ObjectKind.REMOTE, Priority.MATCH, named)
    if endpoint.ip6 is not None:
        advert: MatchFields = {**arrived, **_ADVERT, "nd_target": endpoint.ip6}
        yield _flow(ObjectKind.REMOTE, Priority.EXEMPT, advert)


def granted(network: Network, vrf: int) -> Iterator[Flow]:
    """Yield the flows that keep a vlan network's addresses to its endpoints and its gateways."""
    arrived = VRF.put(vrf) | _ARRIVED
    for block in network.granted:
        for fields in _names(oxm.shortest(block), arrived):
            level = Priority.ABOVE_MATCH if "nd_target" in fields else Priority.GRANTED
            yield _flow(ObjectKind.NETWORK, level, fields, DROP)
    for gateway in stages.gateways(network):
        for fields in _names(gateway, arrived):
            level = Priority.EXEMPT if "nd_target" in fields else Priority.MATCH
            yield _flow(ObjectKind.NETWORK, level, fields)


def _names(
    sender: IPv4Address | IPv6Address | IPv4Network | IPv6Network, arrived: Bits
) -> Iterator[MatchFields]:
    """Yield the matches of all that says to be from, or at, some addresses."""
    if isinstance(sender, IPv4Address | IPv4Network):
        yield {"metadata": arrived, "eth_type": oxm.ETH_IPV4, "ipv4_src": sender}
        yield {"metadata": arrived, "eth_type": oxm.ETH_ARP, "arp_spa": sender}
    else:
        yield {"metadata": arrived, "eth_type": oxm.ETH_IPV6, "ipv6_src": sender}
        yield {"metadata": arrived, **_ADVERT, "nd_target": sender}


def _icmp6(kind: int) -> MatchFields:
    return {"eth_type": oxm.ETH_IPV6, "ip_proto": oxm.PROTO_ICMP6, "icmpv6_type": kind}


_ADVERT: Final = _icmp6(oxm.ND_ADVERT)


def _flow(
    owner: ObjectKind, priority: Priority, fields: MatchFields, instructions: Instructions = _ON
) -> Flow:
    return Flow(owner, TableId.INGRESS_GROUP, priority, Match(**fields), instructions)
