"""vxlan networks, bridged (contivVxlanBridge): the flows at connect and of the tunnels."""

from collections.abc import Iterator

from ofnet.changes import Kind
from ofnet.flows import Flow
from ofnet.pipelines import stages
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode
from ofnet.world import ArpMode, Vtep, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VXLAN)
    yield from stages.dns_interception()
    yield stages.multicast_source_drop()
    if world.arp_mode is ArpMode.PROXY:
        yield stages.arp_to_controller(requests_only=True)


def _vtep(vtep: Vtep, _world: World) -> Iterator[Flow]:
    yield stages.dns_exemption(Kind.VTEP, vtep.ofport)


PIPELINE = Pipeline(mode=Mode.VXLAN, start=_start, vtep=_vtep)
