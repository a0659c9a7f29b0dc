"""vxlan networks, routed: every host is the router of all of its pods (contivVxlanBridge).

Inside a VRF packets are forwarded by address alone: table 7 rewrites the MACs and sends to a port
or into a tunnel. Packets to an unknown address go to the host through `contivh0`, with the pod's
private address as source (`ofnet.pipelines.features.host_exit`).
"""

# Every match of an address has its VRF beside it: tenants' addresses overlap. The one place without
# a VRF is the host's private network, where each pod has an address that is unique on the host
# (`nat_ip`).

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import Instructions, Output, SetField
from ofnet.openflow.fields import VRF
from ofnet.openflow.match import Match
from ofnet.pipelines.features import host_access, host_exit, host_paths, tunnel_probes
from ofnet.pipelines.features.feature import Feature, of_world
from ofnet.pipelines.packet_path import fragments, ingress_group, neighbours, source_guard, stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode, Priority, TableId
from ofnet.world import LocalEndpoint, Network, RemoteEndpoint, Vtep, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VROUTER)
    yield from stages.dns_interception(world)
    yield from fragments.flows()
    yield from tunnel_probes.flows()
    yield stages.multicast_source_drop()
    if not world.guard:
        yield ingress_group.unknown_sources()
    yield stages.arp_to_controller(requests_only=False)
    yield neighbours.unanswered()
    yield neighbours.advertisement(stages.ROUTER_MAC)


def _vtep(vtep: Vtep, _world: World) -> Iterator[Flow]:
    yield stages.dns_exemption(ObjectKind.VTEP, vtep.ofport)


def _network(network: Network, world: World) -> Iterator[Flow]:
    gateways = stages.gateways(network)
    yield from neighbours.answers(
        ObjectKind.NETWORK, VRF.put(network.vrf), gateways, stages.ROUTER_MAC
    )
    if not network.vni:
        return
    arrived = ingress_group.ingress_instructions(network.vrf)
    for vtep in world.vteps.values():
        match = Match(in_port=vtep.ofport, tunnel_id=network.vni)
        yield Flow(ObjectKind.NETWORK, TableId.VLAN, Priority.MATCH, match, arrived)


def _local(endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.port_input(endpoint, network.vrf)
    to_port = Instructions(
        actions=(
            SetField("eth_src", stages.ROUTER_MAC),
            SetField("eth_dst", endpoint.mac),
            Output(endpoint.ofport),
        )
    )
    for address in stages.addresses(endpoint):
        to = stages.destination(address, network.vrf)
        yield Flow(ObjectKind.LOCAL, TableId.IP, Priority.MATCH, to, to_port)
        yield stages.destination_group(ObjectKind.LOCAL, to, endpoint)
    yield from _neighbours(ObjectKind.LOCAL, endpoint, network.vrf)
    yield from neighbours.arp_requests(endpoint, network.vrf, guard=world.guard)
    yield from neighbours.solicitations(endpoint, network.vrf)
    if world.guard:
        yield from source_guard.flows(endpoint, layer2=False, arp=False)
    if world.host_port is not None:
        yield from host_exit.local(endpoint, network.vrf, world.host_port)


def _remote(endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    vtep = world.vteps.get(endpoint.host)
    if network is None or vtep is None or not network.vni:
        return
    to_tunnel = _to_tunnel(network.vni, vtep.ofport)
    for address in stages.addresses(endpoint):
        to = stages.destination(address, network.vrf)
        yield Flow(ObjectKind.REMOTE, TableId.IP, Priority.MATCH, to, to_tunnel)
        yield stages.destination_group(ObjectKind.REMOTE, to, endpoint)
    yield from ingress_group.source_groups(
        endpoint, network.vrf, vtep=vtep if world.guard else None
    )
    yield from _neighbours(ObjectKind.REMOTE, endpoint, network.vrf)


def _neighbours(
    owner: ObjectKind, endpoint: LocalEndpoint | RemoteEndpoint, vrf: int
) -> Iterator[Flow]:
    addresses = stages.addresses(endpoint)
    return neighbours.answers(owner, VRF.put(vrf), addresses, stages.ROUTER_MAC)


@lru_cache(maxsize=4096)
def _to_tunnel(vni: int, ofport: int) -> Instructions:
    # cached, because all endpoints of a network on one host share it
    return Instructions(
        actions=(
            SetField("tunnel_id", vni),
            SetField("eth_dst", stages.ROUTER_MAC),
            Output(ofport),
        )
    )


def _host_port(world: World) -> Iterator[Flow]:
    if world.host_port is not None:
        yield from host_paths.entrance(ObjectKind.HOST_PORT, world.host_port)
        yield from host_exit.of_host_port(world.host_port)


_FORWARDING: Final[Feature] = {
    ObjectKind.PIPELINE: of_world(_start),
    ObjectKind.HOST_PORT: of_world(_host_port),
    ObjectKind.VTEP: _vtep,
    ObjectKind.NETWORK: _network,
    ObjectKind.LOCAL: _local,
    ObjectKind.REMOTE: _remote,
}
PIPELINE: Final = Pipeline(Mode.VROUTER, _FORWARDING, host_access.FEATURE)
