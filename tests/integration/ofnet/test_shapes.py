"""Every shape of flow, as Open vSwitch takes it and prints it, equals our own text.

One load of random flows within the tables' declarations, and the World-made ones of each mode.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import Flow
from ofnet.world import ArpMode, Bridge, FwdMode, Uplink, World
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled
from tests.unit.ofnet.strategies import flows
from tests.unit.ofnet.worlds import local, remote, world

pytestmark = pytest.mark.ovs


@pytest.fixture
async def bridge(ovs_module: OvsHost) -> AsyncIterator[Dialled]:
    async with dialled(ovs_module) as bridge:
        yield bridge


async def printed(bridge: Dialled, wanted: Sequence[Flow]) -> tuple[list[str], list[str]]:
    """Return what the switch prints after getting the flows, and what it should print."""
    await bridge.switch.apply(wanted, [])
    return bridge.flows(), sorted(map(str, wanted))


@pytest.mark.parametrize("mode", [(b, f) for b in Bridge for f in FwdMode])
async def test_flows_of_every_mode(bridge: Dialled, mode: tuple[Bridge, FwdMode]) -> None:
    kind, fwd_mode = mode
    pod = replace(local(1), dscp=10, group_id=7)
    everything: World = replace(
        world(here=(pod, local(2)), there=(remote(3, v6=True), remote(4))),
        fwd_mode=fwd_mode,
        arp_mode=ArpMode.PROXY,
        uplinks=(
            Uplink(ofport=30, mac="52:54:00:00:00:0a"),
            Uplink(ofport=31, mac="52:54:00:00:00:0b"),
        ),
    )
    desired = Desired(kind)
    desired.update(everything, EVERYTHING)
    got, wanted = await printed(bridge, list(desired.flows.values()))
    assert got == wanted


@pytest.fixture
def random_flows() -> list[Flow]:
    """Make flows within the tables' declarations, while no switch waits for our answers."""
    sample: dict[object, Flow] = {}

    @given(st.lists(flows(), min_size=20, max_size=20))
    @settings(
        max_examples=60,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def collect(some: list[Flow]) -> None:
        sample.update((flow.key, flow) for flow in some)

    collect()
    assert len(sample) > 300
    return list(sample.values())


async def test_random_flows(random_flows: list[Flow], bridge: Dialled) -> None:
    got, wanted = await printed(bridge, random_flows)
    assert got == wanted
