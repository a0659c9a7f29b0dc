"""vlan networks, bridged (contivVlanBridge): the physical VLANs reach into every host.

Ports carry their network's tag in OVSDB and table 9 does what a learning switch does; the tables
before it mark groups and apply policy.
"""

from collections.abc import Iterator

from ofnet.changes import Kind
from ofnet.flows import Flow
from ofnet.pipelines import policy, stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode
from ofnet.world import ArpMode, LocalEndpoint, RemoteEndpoint, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VLAN)
    yield from stages.dns_interception()
    yield from policy.neighbour_discovery()
    if world.arp_mode is ArpMode.PROXY:
        yield stages.arp_to_controller(requests_only=True)


def _local(endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.port_input(endpoint, network.vrf)
    yield from stages.destination_groups(Kind.LOCAL, endpoint, network.vrf)


def _remote(endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is not None:
        yield from stages.destination_groups(Kind.REMOTE, endpoint, network.vrf)


PIPELINE = Pipeline(
    mode=Mode.VLAN, start=_start, uplinks=stages.all_uplinks, local=_local, remote=_remote
)
