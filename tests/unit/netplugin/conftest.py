"""Fixtures of an agent's inside on fake doors."""

import pytest

from netplugin.ovsdb import client
from netplugin.pods import add, handler, pod_ports, teardown
from netplugin.world.builder import WorldBuilder
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.records import network
from tests.unit.netplugin.worlds import built, drain


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
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make patience short where a test waits for its end."""
    monkeypatch.setattr(teardown, "RELEASE_WAIT", 0.05)
    monkeypatch.setattr(teardown, "YIELD_TO_ADD", 0.05)
    monkeypatch.setattr(teardown, "BREATH", 0.002)
    monkeypatch.setattr(pod_ports, "LOOK_AGAIN", 0.002)
    monkeypatch.setattr(client, "PORT_READY", 0.05)
    monkeypatch.setattr(add, "NETWORK_KNOWN", 0.05)
    monkeypatch.setattr(handler, "OLD_GONE", 0.1)
    monkeypatch.setattr(handler, "FLOWS_GONE", 0.3)
    monkeypatch.setattr(handler, "UNDONE", 0.3)
