"""vlan networks, bridged (contivVlanBridge): the flows at connect and of the uplinks."""

from collections.abc import Iterator

from ofnet.flows import Flow
from ofnet.pipelines import stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode
from ofnet.world import ArpMode, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VLAN)
    yield from stages.dns_interception()
    if world.arp_mode is ArpMode.PROXY:
        yield stages.arp_to_controller(requests_only=True)


PIPELINE = Pipeline(mode=Mode.VLAN, start=_start, uplinks=stages.all_uplinks)
