"""vlan networks, routed (contivVlanBridge): every host routes between its pods and the uplink.

All tenants share one address space, as in the original: table 7 matches the address alone. A packet
to a remote endpoint leaves by the uplink, on the network's VLAN, to the MAC of the other host's
uplink. Of a bond's NICs the switch uses the first one that works. The host's port for BGP and the
prefixes learned by it are `ofnet.pipelines.features.bgp_routes`'.
"""

from collections.abc import Iterator
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    Action,
    Instructions,
    Output,
    PopVlan,
    SetField,
    goto,
    tag,
)
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features import bgp_routes
from ofnet.pipelines.features.bgp_routes import INSIDE, OUTSIDE
from ofnet.pipelines.features.feature import Feature, of_world
from ofnet.pipelines.packet_path import (
    arrival_guard,
    fragments,
    ingress_group,
    neighbours,
    source_guard,
    stages,
)
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import FLAT_VRF, Mode, Priority, TableId
from ofnet.world import LocalEndpoint, Network, RemoteEndpoint, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VLROUTER)
    yield from stages.dns_interception(world)
    yield from fragments.flows()
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
    if world.guard:
        yield from arrival_guard.granted(network, FLAT_VRF)
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
    if world.uplinks and endpoint.ip is not None:
        yield neighbours.arp_answer(ObjectKind.LOCAL, OUTSIDE, endpoint.ip, world.uplinks[0].mac)
    if world.guard:
        yield from source_guard.flows(endpoint, layer2=False, arp=False)


def _remote(endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.destination_groups(ObjectKind.REMOTE, endpoint, FLAT_VRF)
    yield from ingress_group.source_groups(endpoint, FLAT_VRF)
    if world.guard:
        yield from arrival_guard.claims(endpoint, arrival_guard.origin(FLAT_VRF, None))
    yield from neighbours.answers(
        ObjectKind.REMOTE, INSIDE, stages.addresses(endpoint), stages.ROUTER_MAC
    )
    peer_mac = world.peer_macs.get(endpoint.host)
    if peer_mac is None or not world.uplinks:
        return
    tagging = tag(network.vlan) if network.vlan else ()
    rewrite = (SetField("eth_src", world.uplinks[0].mac), SetField("eth_dst", peer_mac))
    to_peer = Instructions((*rewrite, *tagging, bgp_routes.uplink_output(world.uplinks)))
    for address in stages.addresses(endpoint):
        to = Match(**stages.to_address(address))
        yield Flow(ObjectKind.REMOTE, TableId.IP, Priority.MATCH, to, to_peer)


_FORWARDING: Final[Feature] = {
    ObjectKind.PIPELINE: of_world(_start),
    ObjectKind.UPLINKS: of_world(_uplinks),
    ObjectKind.NETWORK: _network,
    ObjectKind.LOCAL: _local,
    ObjectKind.REMOTE: _remote,
}
PIPELINE: Final = Pipeline(Mode.VLROUTER, _FORWARDING, bgp_routes.FEATURE)
