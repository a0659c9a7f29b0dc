"""What flows rest on, and what of it is amiss: an agent whose host is a fake is looked at."""

from dataclasses import replace

import pytest

from core import keys
from core.errors import HostError, Invalid
from core.ids import EndpointKey
from netplugin.trace.dataplane_checks import DataplaneChecks
from netplugin.world.bridges import port_names
from ofnet.trace.journey import Place
from ofnet.world import Bridge, FwdMode, Uplink, World
from state.records import GlobalRecord
from tests.unit.netplugin.agent import Agent, Outside, request, running
from tests.unit.netplugin.records import PEER, host, key

KEY = key("c1")
WORLD = World(fwd_mode=FwdMode.BRIDGE)


def checks_of(agent: Agent) -> DataplaneChecks:
    return DataplaneChecks(
        agents=agent.dataplane.agents,
        ovsdb=agent.clients.ovsdb,
        links=agent.clients.links,
        check=agent.pod_services.check,
        progress=agent.progress,
    )


async def test_an_endpoint(outside: Outside) -> None:
    async with running(outside) as agent:
        checks = checks_of(agent)
        await agent.pods.add(request())
        record = outside.master.endpoints[KEY]
        agent.learn("k", record)
        assert await checks.of_endpoint(KEY) == []
        outside.links.down.add(("/run/netns/c1", "eth0"))
        assert await checks.of_place(Place("endpoint", KEY), WORLD, 1) == [
            f"endpoint {KEY}: link eth0 is down"
        ]
        assert await checks.of_endpoint(EndpointKey("another")) == []
        outside.faults.failing["links listed"] = HostError("the kernel does not say")
        assert await checks.of_endpoint(KEY) == [f"endpoint {KEY}: the kernel does not say"]


async def test_an_endpoint_that_no_flows_can_be_made_for(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        agent.learn("k", replace(outside.master.endpoints[KEY], group_id=1 << 16))
        with pytest.raises(Invalid, match="65536"):
            await agent.reconciler.flush()
        (fault,) = await checks_of(agent).of_endpoint(KEY)
        assert fault.startswith(f"endpoint {KEY}: no flows can be made for it: ")


async def test_a_bridge(outside: Outside) -> None:
    async with running(outside) as agent:
        checks = checks_of(agent)
        assert list(checks.of_bridge(Bridge.VXLAN)) == []
        outside.switches[Bridge.VXLAN].go(online=False)
        assert list(checks.of_bridge(Bridge.VXLAN)) == [
            f"bridge {Bridge.VXLAN} has no OpenFlow session with the agent"
        ]
        assert list(checks.of_bridge(Bridge.VLAN)) == []
        agent.progress.set_faults("megaflows", ["not purged"])
        assert list(checks.of_bridge(Bridge.VLAN)) == ["not purged"]


async def test_a_tunnel(outside: Outside) -> None:
    async with running(outside) as agent:
        checks, place = checks_of(agent), Place("tunnel", PEER)

        async def amiss(name: str = PEER) -> list[str]:
            return await checks.of_place(
                place._replace(name=name), agent.world.take(Bridge.VXLAN)[0], 1
            )

        agent.learn("k", host())
        await agent.ports.converge()
        await agent.reconciler.flush()
        assert await amiss() == []
        assert await amiss("h9") == [f"no tunnel port to host h9 on {Bridge.VXLAN}"]
        outside.ovsdb.lose("vxif192022")
        assert await amiss() == [f"the tunnel port to host {PEER} is missing on {Bridge.VXLAN}"]


@pytest.mark.parametrize(
    ("uplinks", "amiss"),
    [
        ((True, False), []),
        ((False,), [f"every uplink of {Bridge.VLAN} is down"]),
        ((), [f"{Bridge.VLAN} has no uplink"]),
    ],
)
async def test_uplinks(outside: Outside, uplinks: tuple[bool, ...], amiss: list[str]) -> None:
    cards = (Uplink(ofport=30 + number, mac="m", up=up) for number, up in enumerate(uplinks))
    async with running(outside) as agent:
        world = World(fwd_mode=FwdMode.BRIDGE, uplinks=tuple(cards))
        assert await checks_of(agent).of_place(Place("uplink"), world, 30) == amiss


async def test_the_host_itself(outside: Outside) -> None:
    async with running(outside) as agent:
        checks, place = checks_of(agent), Place("host")
        routed = GlobalRecord(infra_type="", fwd_mode="routing", arp_mode="", pvt_subnet="")
        agent.learn(keys.GLOBAL_CONFIG, replace(routed, pvt_subnet="172.19.0.0/16"))
        await agent.host_access.converge()
        number = port_names.HOST_OFPORT
        assert await checks.of_place(place, WORLD, number) == []
        assert await checks.of_place(place, WORLD, number + 1) == [
            "the host's port contivh0 is missing in Open vSwitch"
        ]
        del outside.links.there["contivh0"]
        agent.progress.set_faults("host routes", ["no route to 10.1.0.1"])
        assert await checks.of_place(place, WORLD, number) == [
            "no route to 10.1.0.1",
            "link contivh0 of the host is missing",
        ]
