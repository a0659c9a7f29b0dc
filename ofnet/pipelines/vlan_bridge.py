"""vlan networks, bridged (contivVlanBridge): the physical VLANs reach into every host.

The tables set groups and apply policy; table 9 then forwards as a learning switch (NORMAL).
"""

# Nothing here tags or untags frames: a port has its network's tag in OVSDB, and NORMAL applies it.
# Frames from an unknown port skip services and policy but are forwarded, as in the original; the
# other modes drop them (`ofnet.tables`).

from collections.abc import Iterator
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import goto
from ofnet.pipelines.features import contiv_policy
from ofnet.pipelines.features.feature import Feature, of_world
from ofnet.pipelines.packet_path import arrival_guard, fragments, ingress_group, neighbours, stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode, TableId
from ofnet.world import ArpMode, LocalEndpoint, Network, RemoteEndpoint, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VLAN)
    yield from stages.dns_interception(world)
    yield from fragments.flows()
    yield from contiv_policy.neighbour_discovery()
    yield ingress_group.unknown_sources()
    if world.arp_mode is ArpMode.PROXY:
        yield stages.arp_to_controller(requests_only=True)
        yield neighbours.unanswered()


def _uplinks(world: World) -> Iterator[Flow]:
    """Yield the flows for packets on no network's VLAN: they skip services and policy."""
    for uplink in world.uplinks:
        yield from stages.uplink_input(uplink, goto(TableId.SRV_PROXY_SNAT))


def _network(network: Network, world: World) -> Iterator[Flow]:
    for uplink in world.uplinks:
        yield ingress_group.vlan_ingress(uplink, network.vlan, network.vrf)
    if world.guard:
        yield from arrival_guard.granted(network, network.vrf)
    if world.arp_mode is ArpMode.PROXY:
        for uplink in world.uplinks:
            yield neighbours.uplink_arp_requests(
                ObjectKind.NETWORK, uplink.ofport, network.vlan, network.vrf
            )


def _local(endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.port_input(endpoint, network.vrf)
    yield from stages.destination_groups(ObjectKind.LOCAL, endpoint, network.vrf)
    yield from neighbours.bridged(endpoint, network, world)


def _remote(endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.destination_groups(ObjectKind.REMOTE, endpoint, network.vrf)
    yield from ingress_group.source_groups(endpoint, network.vrf)
    if world.guard:
        yield from arrival_guard.claims(endpoint, arrival_guard.origin(network.vrf, None))
    yield from neighbours.bridged(endpoint, network, world)


_FORWARDING: Final[Feature] = {
    ObjectKind.PIPELINE: of_world(_start),
    ObjectKind.UPLINKS: of_world(_uplinks),
    ObjectKind.NETWORK: _network,
    ObjectKind.LOCAL: _local,
    ObjectKind.REMOTE: _remote,
}
PIPELINE: Final = Pipeline(Mode.VLAN, _FORWARDING)
