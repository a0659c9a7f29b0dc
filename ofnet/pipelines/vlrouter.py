"""vlan networks, routed (contivVlanBridge): every host routes between its pods and the uplink.

All tenants share one address space, as in the original: table 7 matches the address alone. A packet
to a remote endpoint leaves by the uplink, on the network's VLAN, to the MAC of the other host's
uplink. Of a bond's NICs the switch uses the first one that works. A packet to a prefix learned by
BGP leaves without a tag to the next hop.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    Action,
    Instructions,
    Output,
    OutputFirst,
    PopVlan,
    SetField,
    goto,
    tag,
)
from ofnet.openflow.fields import RX_VTEP, VRF
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines import ingress_group, neighbours, pod_guard, source_guard, stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.pipelines.stages import FLAT_VRF
from ofnet.tables import Mode, Priority, TableId
from ofnet.world import LocalEndpoint, Network, RemoteEndpoint, Router, Uplink, World

ROUTER_VLAN: Final = 1
"""The tag of the host's port for BGP; packets to it may have it."""

INSIDE: Final = VRF.put(FLAT_VRF) | RX_VTEP.put(0)
OUTSIDE: Final = VRF.put(FLAT_VRF) | RX_VTEP.put(1)
"""The metadata of ARP and ND requests: from a pod of this host, or from an uplink."""


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VLROUTER)
    yield from stages.dns_interception(guard=world.guard)
    yield stages.multicast_source_drop()
    yield ingress_group.unknown_sources()
    yield stages.arp_to_controller(requests_only=False)
    own_arp = Match(eth_type=oxm.ETH_ARP, eth_src=stages.ROUTER_MAC)
    yield Flow(ObjectKind.PIPELINE, TableId.INPUT, Priority.OWN_ARP, own_arp, goto(TableId.IP))
    yield neighbours.unanswered()
    yield neighbours.advertisement(stages.ROUTER_MAC)


def _uplinks(world: World) -> Iterator[Flow]:
    for uplink in world.uplinks:
        yield from stages.uplink_input(uplink, ingress_group.ingress_instructions(FLAT_VRF))
    if len(world.uplinks) > 1:
        # The switch never outputs to the port of origin, but to another NIC of the bond it would:
        # a packet from the physical network to a remote endpoint would be sent back there.
        for uplink in world.uplinks:
            arrived = Match(in_port=uplink.ofport)
            yield Flow(ObjectKind.UPLINKS, TableId.IP, Priority.ABOVE_MATCH, arrived, DROP)


def _network(network: Network, world: World) -> Iterator[Flow]:
    yield from neighbours.answers(
        ObjectKind.NETWORK, INSIDE, stages.gateways(network), stages.ROUTER_MAC
    )
    for uplink in world.uplinks if network.vlan else ():
        yield neighbours.uplink_arp_requests(
            ObjectKind.NETWORK, uplink.ofport, network.vlan, FLAT_VRF
        )


def _local(endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.port_input(endpoint, FLAT_VRF)
    rewrite = (SetField("eth_src", stages.ROUTER_MAC), SetField("eth_dst", endpoint.mac))
    out = Output(endpoint.ofport)
    tagged: tuple[Action, ...] = (*rewrite, PopVlan(), out)
    for address in stages.addresses(endpoint):
        tagged_to: MatchFields = {"vlan_vid": network.vlan, **stages.to_address(address)}
        on_vlan = Match(**tagged_to)
        to = Match(**stages.to_address(address))
        yield Flow(ObjectKind.LOCAL, TableId.IP, Priority.TAGGED, on_vlan, Instructions(tagged))
        yield Flow(
            ObjectKind.LOCAL, TableId.IP, Priority.UNTAGGED, to, Instructions((*rewrite, out))
        )
    yield from stages.destination_groups(ObjectKind.LOCAL, endpoint, FLAT_VRF)
    yield from neighbours.arp_requests(endpoint, FLAT_VRF, guard=world.guard)
    yield from neighbours.solicitations(endpoint, FLAT_VRF)
    yield from neighbours.answers(
        ObjectKind.LOCAL, INSIDE, stages.addresses(endpoint), stages.ROUTER_MAC
    )
    if world.uplinks:
        yield neighbours.arp_answer(ObjectKind.LOCAL, OUTSIDE, endpoint.ip, world.uplinks[0].mac)
    if world.guard:
        yield from source_guard.flows(endpoint, layer2=False, arp=False)


def _remote(endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.destination_groups(ObjectKind.REMOTE, endpoint, FLAT_VRF)
    yield from ingress_group.source_groups(endpoint, FLAT_VRF)
    yield from neighbours.answers(
        ObjectKind.REMOTE, INSIDE, stages.addresses(endpoint), stages.ROUTER_MAC
    )
    peer_mac = world.peer_macs.get(endpoint.host)
    if peer_mac is None or not world.uplinks:
        return
    tagging = tag(network.vlan) if network.vlan else ()
    rewrite = (SetField("eth_src", world.uplinks[0].mac), SetField("eth_dst", peer_mac))
    to_peer = Instructions((*rewrite, *tagging, _uplink_output(world.uplinks)))
    for address in stages.addresses(endpoint):
        to = Match(**stages.to_address(address))
        yield Flow(ObjectKind.REMOTE, TableId.IP, Priority.MATCH, to, to_peer)


def _router(router: Router, world: World) -> Iterator[Flow]:
    """Yield the flows of the host's own port for BGP, and of the route to the peer."""
    request = Match(in_port=router.ofport, eth_type=oxm.ETH_ARP, arp_op=neighbours.ARP_REQUEST)
    yield neighbours.lookup(ObjectKind.ROUTER, request, INSIDE)
    yield from neighbours.answers(
        ObjectKind.ROUTER, INSIDE, iter((router.ip, router.peer)), stages.ROUTER_MAC
    )
    yield stages.into_tables(ObjectKind.ROUTER, router.ofport, VRF.put(FLAT_VRF))
    rewrite = (SetField("eth_src", stages.ROUTER_MAC), SetField("eth_dst", router.mac))
    out = Output(router.ofport)
    to = stages.to_address(router.ip)
    tagged_to: MatchFields = {"vlan_vid": ROUTER_VLAN, **to}
    tagged = Match(**tagged_to)
    popped = Instructions((*rewrite, PopVlan(), out))
    yield Flow(ObjectKind.ROUTER, TableId.IP, Priority.TAGGED, tagged, popped)
    delivered = Instructions((*rewrite, out))
    yield Flow(ObjectKind.ROUTER, TableId.IP, Priority.UNTAGGED, Match(**to), delivered)
    for uplink in world.uplinks:
        # on any VLAN: the peer's network is none of the cluster's
        sought = Match(
            in_port=uplink.ofport,
            eth_type=oxm.ETH_ARP,
            arp_op=neighbours.ARP_REQUEST,
            arp_tpa=router.ip,
        )
        yield neighbours.lookup(ObjectKind.ROUTER, sought, OUTSIDE)
    if world.uplinks:
        yield neighbours.arp_answer(ObjectKind.ROUTER, OUTSIDE, router.ip, world.uplinks[0].mac)
    if router.peer_mac is not None:
        peer = IPv4Network(router.peer)
        yield from _by_next_hop(peer, router.peer_mac, world, Priority.MATCH)


def _route(prefix: IPv4Network, mac: str, world: World) -> Iterator[Flow]:
    """Yield the flow of a learned prefix; the longest matching prefix wins."""
    # Open vSwitch knows priorities, not prefix lengths, so a length is a priority: 20 for 0 bits,
    # one more for each bit. That is below endpoints (100 and more), so that a default route does
    # not take the traffic of pods. A host route alone keeps the original's 101. There all routes
    # have it, which leaves overlapping prefixes undefined.
    length = prefix.prefixlen
    host_route = length == prefix.max_prefixlen
    priority = Priority.ABOVE_MATCH if host_route else Priority.SHORTEST_PREFIX + length
    yield from _by_next_hop(prefix, mac, world, priority)


def _by_next_hop(prefix: IPv4Network, mac: str, world: World, priority: int) -> Iterator[Flow]:
    if not world.uplinks:
        return
    fields: MatchFields = {"eth_type": oxm.ETH_IPV4}
    if prefix.prefixlen:
        fields["ipv4_dst"] = oxm.shortest(prefix)
    if len(world.uplinks) > 1:
        # a packet from one NIC of the bond must not leave by another
        fields["metadata"] = RX_VTEP.put(0)
    rewrite = (SetField("eth_src", world.uplinks[0].mac), SetField("eth_dst", mac))
    onward = Instructions((*rewrite, _uplink_output(world.uplinks)))
    yield Flow(ObjectKind.ROUTE, TableId.IP, priority, Match(**fields), onward)


def _uplink_output(uplinks: tuple[Uplink, ...]) -> Output | OutputFirst:
    ports = tuple(uplink.ofport for uplink in uplinks)
    return Output(ports[0]) if len(ports) == 1 else OutputFirst(ports)


PIPELINE = Pipeline(
    mode=Mode.VLROUTER,
    start=_start,
    uplinks=_uplinks,
    network=_network,
    local=_local,
    remote=_remote,
    management=pod_guard.everywhere,
    router=_router,
    route=_route,
)
