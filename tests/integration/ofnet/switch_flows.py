"""What tests of trace share."""

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.world import Bridge, World


def flows_of(bridge: Bridge, world: World) -> list[Flow]:
    desired = Desired(bridge)
    desired.update(world, EVERYTHING)
    assert not desired.faults
    return list(desired.flows.values())
