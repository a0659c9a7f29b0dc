"""vxlan networks, bridged (contivVxlanBridge): one layer 2 over all hosts for each network.

Inside the switch a network is a VLAN of this host: frames from pods and tunnels get its tag in
table 1, and table 9 forwards them by MAC, or floods them.
"""

# No loops: tunnels are a full mesh between hosts, so a flooded frame reaches every host in one hop.
# A frame from a tunnel (RX_VTEP set) is flooded to pods alone, never into a tunnel again.
#
# Flood ports stand in the flow's actions. The original uses OpenFlow groups, which are state of
# their own: a comparison of flows would not notice that a group is missing or wrong.

from collections.abc import Iterator
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import Action, Instructions, Output, PopVlan, SetField, tag
from ofnet.openflow.fields import RX_VTEP
from ofnet.openflow.match import Match
from ofnet.pipelines.features import contiv_policy, host_access, tunnel_probes
from ofnet.pipelines.features.feature import Feature, of_world
from ofnet.pipelines.packet_path import arrival_guard, fragments, ingress_group, neighbours, stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode, Priority, TableId
from ofnet.world import ArpMode, LocalEndpoint, Network, RemoteEndpoint, Vtep, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VXLAN)
    yield from stages.dns_interception(world)
    yield from fragments.flows()
    yield from tunnel_probes.flows()
    yield from contiv_policy.neighbour_discovery()
    yield stages.multicast_source_drop()
    if world.guard:
        yield from arrival_guard.neighbours()
    else:
        yield ingress_group.unknown_sources()
    if world.arp_mode is ArpMode.PROXY:
        yield stages.arp_to_controller(requests_only=True)
        yield neighbours.unanswered()


def _vtep(vtep: Vtep, _world: World) -> Iterator[Flow]:
    yield stages.dns_exemption(ObjectKind.VTEP, vtep.ofport)


def _network(network: Network, world: World) -> Iterator[Flow]:
    if not network.vni:
        return
    arrived = ingress_group.ingress_instructions(network.vrf, tagging=tag(network.vlan))
    for vtep in world.vteps.values():
        match = Match(in_port=vtep.ofport, tunnel_id=network.vni)
        yield Flow(ObjectKind.NETWORK, TableId.VLAN, Priority.MATCH, match, arrived)


def _local(endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.port_input(endpoint, network.vrf, tagging=tag(network.vlan))
    to_port = (PopVlan(), Output(endpoint.ofport))
    yield _to_mac(ObjectKind.LOCAL, network, endpoint.mac, to_port)
    yield from stages.destination_groups(ObjectKind.LOCAL, endpoint, network.vrf)
    yield from neighbours.bridged(endpoint, network, world)


def _remote(endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    vtep = world.vteps.get(endpoint.host)
    if network is None or vtep is None or not network.vni:
        return
    to_tunnel = (SetField("tunnel_id", network.vni), PopVlan(), Output(vtep.ofport))
    yield _to_mac(ObjectKind.REMOTE, network, endpoint.mac, to_tunnel)
    yield from stages.destination_groups(ObjectKind.REMOTE, endpoint, network.vrf)
    yield from ingress_group.source_groups(
        endpoint, network.vrf, vtep=vtep if world.guard else None
    )
    if world.guard:
        yield from arrival_guard.claims(endpoint, arrival_guard.origin(network.vrf, vtep.ofport))
    yield from neighbours.bridged(endpoint, network, world)


def _flood(network: Network, world: World) -> Iterator[Flow]:
    """Yield the flows that flood unknown, broadcast and multicast frames."""
    if not network.vni:
        return
    pods = sorted(pod.ofport for pod in world.local.values() if pod.network == network.id)
    to_pods: tuple[Action, ...] = (PopVlan(), *map(Output, pods))
    tunnels = sorted(vtep.ofport for vtep in world.vteps.values())
    to_tunnels: tuple[Action, ...] = ()
    if tunnels:
        to_tunnels = (SetField("tunnel_id", network.vni), *map(Output, tunnels))
    for from_tunnel, everywhere in ((0, (*to_pods, *to_tunnels)), (1, to_pods)):
        match = Match(vlan_vid=network.vlan, metadata=RX_VTEP.put(from_tunnel))
        flood = Instructions(everywhere)
        yield Flow(ObjectKind.FLOOD, TableId.MAC_DEST, Priority.PORT, match, flood)


def _to_mac(owner: ObjectKind, network: Network, mac: str, actions: tuple[Action, ...]) -> Flow:
    match = Match(vlan_vid=network.vlan, eth_dst=mac)
    return Flow(owner, TableId.MAC_DEST, Priority.MATCH, match, Instructions(actions))


_FORWARDING: Final[Feature] = {
    ObjectKind.PIPELINE: of_world(_start),
    ObjectKind.VTEP: _vtep,
    ObjectKind.NETWORK: _network,
    ObjectKind.LOCAL: _local,
    ObjectKind.REMOTE: _remote,
    ObjectKind.FLOOD: _flood,
}
PIPELINE: Final = Pipeline(Mode.VXLAN, _FORWARDING, host_access.FEATURE)
