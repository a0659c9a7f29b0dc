"""What flows rest on, and what of it is amiss."""

from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from core.errors import HostError
from core.ids import EndpointKey
from netplugin.trace.dataplane_checks import DataplaneChecks
from ofnet.changes import ObjectId, ObjectKind
from ofnet.trace.journey import Place
from ofnet.world import Bridge, FwdMode, Uplink, World

KEY = EndpointKey("n1.default-c1")
WORLD = World(fwd_mode=FwdMode.BRIDGE)


@pytest.fixture
def parts() -> dict[str, Any]:
    """Return the parts of a host that is as it should be."""
    agents = {bridge: Mock(connected=True, desired=Mock(faults={})) for bridge in Bridge}
    progress, check = Mock(), AsyncMock()
    progress.faults.return_value = []
    check.faults_of.return_value = []
    parts = {"agents": agents, "ovsdb": Mock(), "links": AsyncMock(), "check": check}
    return {**parts, "progress": progress}


async def test_an_endpoint(parts: dict[str, Any]) -> None:
    checks = DataplaneChecks(**parts)
    assert await checks.of_endpoint(KEY) == []
    parts["agents"][Bridge.VLAN].desired.faults = {
        ObjectId(ObjectKind.LOCAL, KEY): "no MAC address"
    }
    parts["check"].faults_of.return_value = ["link eth0 is down"]
    assert await checks.of_endpoint(KEY) == [
        f"endpoint {KEY}: no flows can be made for it: no MAC address",
        f"endpoint {KEY}: link eth0 is down",
    ]
    assert await checks.of_endpoint(EndpointKey("another")) == [
        "endpoint another: link eth0 is down"
    ]
    parts["check"].faults_of.side_effect = HostError("the namespace is gone")
    assert f"endpoint {KEY}: the namespace is gone" in await checks.of_endpoint(KEY)


def test_a_bridge(parts: dict[str, Any]) -> None:
    checks = DataplaneChecks(**parts)
    assert list(checks.of_bridge(Bridge.VXLAN)) == []
    parts["agents"][Bridge.VXLAN].connected = False
    assert list(checks.of_bridge(Bridge.VXLAN)) == [
        f"bridge {Bridge.VXLAN} has no OpenFlow session with the agent"
    ]
    assert list(checks.of_bridge(Bridge.VLAN)) == []


async def test_uplinks(parts: dict[str, Any]) -> None:
    checks, place = DataplaneChecks(**parts), Place("uplink")

    async def amiss(*uplinks: Uplink) -> list[str]:
        world = World(fwd_mode=FwdMode.BRIDGE, uplinks=uplinks)
        return await checks.of_place(place, world, 30)

    up, down = Uplink(ofport=30, mac="m"), Uplink(ofport=31, mac="m", up=False)
    assert await amiss(up, down) == []
    assert await amiss(down) == [f"every uplink of {Bridge.VLAN} is down"]
    assert await amiss() == [f"{Bridge.VLAN} has no uplink"]


async def test_the_host_itself(parts: dict[str, Any]) -> None:
    checks, row = DataplaneChecks(**parts), Mock(ofport=1, error=None)
    row.name = "contivh0"
    parts["ovsdb"].ports.return_value = {"contivh0": row}
    parts["links"].links.return_value = {"contivh0"}
    assert await checks.of_place(Place("host"), WORLD, 1) == []
    parts["links"].links.return_value = set()
    assert await checks.of_place(Place("host"), WORLD, 1) == [
        "link contivh0 of the host is missing"
    ]
    assert await checks.of_place(Place("host"), WORLD, 2) == [
        "the host's port contivh0 is missing in Open vSwitch"
    ]
    parts["progress"].faults.return_value = ["no route to 10.1.0.1"]
    assert "no route to 10.1.0.1" in await checks.of_place(Place("host"), WORLD, 1)
