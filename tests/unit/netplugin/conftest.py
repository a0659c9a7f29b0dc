"""Fixtures of an agent on fake clients."""

import pytest

from netplugin.pods.registry.pod_host import PodTiming
from netplugin.startup.context import AgentTiming
from netplugin.world.builder import WorldBuilder
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.records import network
from tests.unit.netplugin.worlds import built, drain

SHORT = PodTiming(
    network_known=0.05,
    flows_gone=0.3,
    undone=0.3,
    release_wait=0.05,
    yield_to_add=0.05,
    port_rescan=0.002,
    collect_grace=0.0,
)


@pytest.fixture
async def outside() -> Outside:
    return Outside.new()


@pytest.fixture
def builder() -> WorldBuilder:
    """Give a builder that knows one network, with nothing to take."""
    builder = built()
    builder.put(network())
    drain(builder)
    return builder


@pytest.fixture
async def hurried(outside: Outside) -> None:
    """Make time limits short where a test waits for their end."""
    outside.timing = AgentTiming(pods=SHORT)
    # Longer than a test holds a step up: on a busy machine that may be the whole time of a port.
    outside.ovsdb.port_ready = 1.0
