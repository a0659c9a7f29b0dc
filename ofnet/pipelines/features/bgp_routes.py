"""BGP on a routed vlan bridge: the host's own port, and the prefixes learned from the peer.

In come the router and the routes of a World; out go flows for `ofnet.pipelines.vlrouter`. A packet
to a learned prefix leaves by the uplink without a tag, to the MAC address of the next hop. The
longest matching prefix wins, and pods win over prefixes.
"""

# Open vSwitch knows priorities, not prefix lengths, so that a length has to become a priority. The
# original's endpoints have 100 and more in table 7, so that 20 to 99 are left for prefixes: 80
# lengths. IPv4 has 33. IPv6 has 129, hence two tables: table 7 has its longer prefixes and sends
# the rest to table 22, which has the shorter ones. A host route alone has the original's 101.
# (There all routes have it, which leaves overlapping prefixes undefined.)

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from ofnet.changes import BgpRoute, ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    TO_CONTROLLER,
    Instructions,
    Output,
    OutputFirst,
    PopVlan,
    SetField,
    goto,
)
from ofnet.openflow.fields import RX_VTEP, VRF
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features.feature import Feature
from ofnet.pipelines.packet_path import neighbours, stages
from ofnet.tables import FLAT_VRF, Priority, TableId
from ofnet.world import Router, Uplink, World

ROUTER_VLAN: Final = 1
"""The tag of the host's port for BGP; packets to it may have it."""

INSIDE: Final = VRF.put(FLAT_VRF) | RX_VTEP.put(0)
OUTSIDE: Final = VRF.put(FLAT_VRF) | RX_VTEP.put(1)
"""The metadata of ARP and ND requests: from a pod of this host, or from an uplink."""

LONG_PREFIX6: Final = 48
"""The length from which an IPv6 prefix is in table 7: the 80 lengths that 20 to 99 are left for."""


def router(router: Router, world: World) -> Iterator[Flow]:
    """Yield the flows of the host's own port for BGP, and of the route to the peer."""
    own = [one for one in (router.ip, router.global6) if one is not None]
    yield _question_of_host(router)
    inside = iter((*own, router.peer))
    yield from neighbours.answers(ObjectKind.ROUTER, INSIDE, inside, stages.ROUTER_MAC)
    yield stages.into_tables(ObjectKind.ROUTER, router.ofport, VRF.put(FLAT_VRF))
    rewrite = (SetField("eth_src", stages.ROUTER_MAC), SetField("eth_dst", router.mac))
    out = Output(router.ofport)
    popped = Instructions((*rewrite, PopVlan(), out))
    delivered = Instructions((*rewrite, out))
    for address in own:
        to = stages.to_address(address)
        tagged_to: MatchFields = {"vlan_vid": ROUTER_VLAN, **to}
        tagged = Match(**tagged_to)
        yield Flow(ObjectKind.ROUTER, TableId.IP, Priority.TAGGED, tagged, popped)
        yield Flow(ObjectKind.ROUTER, TableId.IP, Priority.UNTAGGED, Match(**to), delivered)
    if router.ip is not None:
        yield from _address_resolution(router.ip, world)
    if router.peer_mac is not None:
        peer = ip_network(router.peer)
        yield from _by_next_hop(peer, router.peer_mac, world, Priority.MATCH)
    if router.ip6 is not None:
        own6 = [one for one in (router.ip6, router.global6) if one is not None]
        yield from _neighbour_discovery(own6, world)


def _question_of_host(router: Router) -> Flow:
    """Return the flow that has the host's own question for its peer answered."""
    if isinstance(router.peer, IPv4Address):
        asked = Match(in_port=router.ofport, eth_type=oxm.ETH_ARP, arp_op=neighbours.ARP_REQUEST)
    else:
        asked = _solicitation(router.ofport, router.peer)
    return neighbours.lookup(ObjectKind.ROUTER, asked, INSIDE)


def _solicitation(ofport: int, target: IPv6Address) -> Match:
    return Match(
        in_port=ofport,
        eth_type=oxm.ETH_IPV6,
        ip_proto=oxm.PROTO_ICMP6,
        icmpv6_type=oxm.ND_SOLICIT,
        nd_target=target,
    )


def _address_resolution(own: IPv4Address, world: World) -> Iterator[Flow]:
    """Yield the flows by which the peer's network resolves this host's address (RFC 826)."""
    for uplink in world.uplinks:
        # on any VLAN: the peer's network is none of the cluster's
        sought = Match(
            in_port=uplink.ofport,
            eth_type=oxm.ETH_ARP,
            arp_op=neighbours.ARP_REQUEST,
            arp_tpa=own,
        )
        yield neighbours.lookup(ObjectKind.ROUTER, sought, OUTSIDE)
    if world.uplinks:
        yield neighbours.arp_answer(ObjectKind.ROUTER, OUTSIDE, own, world.uplinks[0].mac)


def _neighbour_discovery(own: Sequence[IPv6Address], world: World) -> Iterator[Flow]:
    """Yield the flows by which this host and the peer's network resolve each other (RFC 4861)."""
    if not world.uplinks:
        return
    mac = world.uplinks[0].mac
    for uplink in world.uplinks:
        for address in own:
            sought = _solicitation(uplink.ofport, address)
            yield neighbours.lookup(ObjectKind.ROUTER, sought, OUTSIDE)
        # answers to the agent's own requests (`netplugin.bgp.nexthops`)
        told = Match(
            in_port=uplink.ofport,
            eth_type=oxm.ETH_IPV6,
            ip_proto=oxm.PROTO_ICMP6,
            icmpv6_type=oxm.ND_ADVERT,
        )
        yield Flow(ObjectKind.ROUTER, TableId.INPUT, Priority.REQUEST, told, TO_CONTROLLER)
    yield from neighbours.answers(ObjectKind.ROUTER, OUTSIDE, iter(own), mac)
    yield neighbours.advertisement_beyond_host(ObjectKind.ROUTER, OUTSIDE, mac)


def route(hop: BgpRoute, world: World) -> Iterator[Flow]:
    """Yield the flows of a learned prefix."""
    prefix, mac = hop
    length = prefix.prefixlen
    if length == prefix.max_prefixlen:
        yield from _by_next_hop(prefix, mac, world, Priority.ABOVE_MATCH)
    elif prefix.version == 4:
        yield from _by_next_hop(prefix, mac, world, Priority.SHORTEST_PREFIX + length)
    elif length >= LONG_PREFIX6:
        priority = Priority.SHORTEST_PREFIX + length - LONG_PREFIX6
        yield from _by_next_hop(prefix, mac, world, priority)
    else:
        # every short prefix yields the flow that leads to them; it is one flow
        ipv6 = Match(eth_type=oxm.ETH_IPV6)
        on = goto(TableId.SHORT_PREFIXES)
        yield Flow(ObjectKind.ROUTE, TableId.IP, Priority.SHORT_PREFIXES, ipv6, on)
        priority = Priority.SHORTEST_PREFIX + length
        yield from _by_next_hop(prefix, mac, world, priority, TableId.SHORT_PREFIXES)


def uplink_output(uplinks: tuple[Uplink, ...]) -> Output | OutputFirst:
    """Return the output to the uplink: of a bond's NICs, to the first that works."""
    ports = tuple(uplink.ofport for uplink in uplinks)
    return Output(ports[0]) if len(ports) == 1 else OutputFirst(ports)


def _by_next_hop(
    prefix: IPv4Network | IPv6Network,
    mac: str,
    world: World,
    priority: int,
    table: TableId = TableId.IP,
) -> Iterator[Flow]:
    if not world.uplinks:
        return
    fields = _to_prefix(prefix)
    if len(world.uplinks) > 1:
        # a packet from one NIC of the bond must not leave by another
        fields["metadata"] = RX_VTEP.put(0)
    rewrite = (SetField("eth_src", world.uplinks[0].mac), SetField("eth_dst", mac))
    onward = Instructions((*rewrite, uplink_output(world.uplinks)))
    yield Flow(ObjectKind.ROUTE, table, priority, Match(**fields), onward)


def _to_prefix(prefix: IPv4Network | IPv6Network) -> MatchFields:
    if isinstance(prefix, IPv4Network):
        fields: MatchFields = {"eth_type": oxm.ETH_IPV4, "ipv4_dst": oxm.shortest(prefix)}
    else:
        fields = {"eth_type": oxm.ETH_IPV6, "ipv6_dst": oxm.shortest(prefix)}
    if not prefix.prefixlen:
        fields = {"eth_type": fields["eth_type"]}
    return fields


FEATURE: Final[Feature] = {ObjectKind.ROUTER: router, ObjectKind.ROUTE: route}
