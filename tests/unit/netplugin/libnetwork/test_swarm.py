"""Networks of a swarm: what netmaster is asked, what nodes are told, and what is freed later."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contivmodel.rpc import AllocNetworkRequest
from core.errors import Conflict, NotFound
from core.retry import Pace
from core.tasks import background
from netplugin.libnetwork.calls import BadBody
from netplugin.libnetwork.swarm import SwarmNetworks
from netplugin.world.builder import WorldBuilder
from ofnet.world import FwdMode
from state.records import Encap
from tests.unit.netplugin.agent import eventually
from tests.unit.netplugin.fakes import FakeMaster, Faults
from tests.unit.netplugin.records import HOST, group, network

ID = "v22ewtnc3pk3vcphysvorugnb"
POOL = {"Pool": "10.7.0.0/24", "Gateway": "10.7.0.254/24"}


class Manager:
    """The calls of a manager, and what they are carried out with."""

    def __init__(self, directory: Path) -> None:
        self.faults = Faults()
        self.master = FakeMaster(self.faults)
        self.world = WorldBuilder(HOST, FwdMode.ROUTING)
        self.world.put(network())
        self.world.put(replace(group("g1"), group_tag="gold"))
        self.freed = directory / "freed"
        self.networks = self.agent()

    def agent(self) -> SwarmNetworks:
        return SwarmNetworks(self.master, self.world, Encap.VLAN, self.freed, pace=Pace(0.01, 0.01))

    async def allocate(self, **members: object) -> Mapping[str, Any]:
        body = json.dumps({"NetworkID": ID, **members}).encode()
        answer = await self.networks.allocate_network(body)
        assert answer.keys() == {"Options"}
        return answer["Options"]  # type: ignore[return-value] # of the one shape


@pytest.fixture
def manager(tmp_path: Path) -> Manager:
    return Manager(tmp_path)


async def test_a_network_of_its_own(manager: Manager) -> None:
    """Each node is told the answered options by its own engine."""
    v6 = {"Pool": "fd00:7::/64", "Gateway": "fd00:7::1/64"}
    options = await manager.allocate(Options={"k": "v"}, IPv4Data=[POOL], IPv6Data=[v6])
    assert options == {"k": "v", "tenant": "default", "network": ID}
    (asked,) = manager.master.allocated
    assert asked == AllocNetworkRequest(
        docker_id=ID,
        encap="vlan",
        subnet="10.7.0.0/24",
        gateway="10.7.0.254",
        ipv6_subnet="fd00:7::/64",
        ipv6_gateway="fd00:7::1",
    )


async def test_a_network_without_gateway(manager: Manager) -> None:
    await manager.allocate(Options=None, IPv4Data=[{**POOL, "Gateway": "10.7.0.0/24"}])
    assert manager.master.allocated[0].gateway == ""


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"contiv-tag": "gold"}, ("default", "n1", "g1")),
        ({"contiv-tag": "n1.default"}, ("default", "n1", "")),
        ({"network": "n5", "tenant": "red"}, ("red", "n5", "")),
    ],
)
async def test_a_network_that_exists(
    manager: Manager, options: dict[str, str], place: tuple[str, str, str]
) -> None:
    answered = await manager.allocate(Options=options, IPv4Data=[])
    (asked,) = manager.master.allocated
    assert (asked.tenant_name, asked.network_name, asked.service_name) == place
    assert (answered["tenant"], answered["network"], answered.get("group", "")) == place


async def test_what_is_refused(manager: Manager) -> None:
    with pytest.raises(NotFound, match="failed to lookup tag lead"):
        await manager.allocate(Options={"contiv-tag": "lead"})
    with pytest.raises(BadBody, match="Options"):
        await manager.allocate(Options={"contiv-tag": 1})
    with pytest.raises(BadBody, match="no body"):
        await manager.networks.allocate_network(b"")
    with pytest.raises(BadBody, match="NetworkID"):
        await manager.networks.free_network(b"{}")
    assert not manager.master.allocated
    assert not manager.freed.exists()


async def test_a_network_is_freed_once(manager: Manager) -> None:
    await manager.networks.free_network(json.dumps({"NetworkID": ID}).encode())
    assert manager.master.freed == [ID]
    assert list(manager.freed.iterdir()) == []


async def test_what_cannot_be_freed_is_freed_later_even_by_the_next_agent(
    manager: Manager,
) -> None:
    """Docker does not repeat FreeNetwork, and would ignore an error."""
    manager.faults.failing["free network"] = Conflict("Network has active endpoints")
    body = json.dumps({"NetworkID": ID}).encode()
    assert await manager.networks.free_network(body) == {}
    assert manager.master.freed == []
    manager.faults.failing.clear()
    async with background("swarm networks", manager.agent().run()):
        await eventually(lambda: manager.master.freed == [ID])
        await eventually(lambda: list(manager.freed.iterdir()) == [])


async def test_freeing_goes_on_until_it_succeeds(manager: Manager) -> None:
    async with background("swarm networks", manager.networks.run()):
        manager.faults.failing["free network"] = Conflict("Network has active endpoints")
        await manager.networks.free_network(json.dumps({"NetworkID": ID}).encode())
        manager.faults.failing.clear()
        await eventually(lambda: manager.master.freed == [ID])
