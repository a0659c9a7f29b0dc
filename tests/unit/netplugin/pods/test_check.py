"""CHECK: each thing that an ADD made is missed by name when it is gone or different."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from core.errors import HostError
from netplugin.cni import results
from netplugin.cni.errors import BadCall, InterfaceDiffers
from netplugin.cni.net_config import BandwidthLimit
from netplugin.cni.request import PodRequest
from ofnet.world import Bridge
from state.watch import Removed
from tests.unit.netplugin.agent import Agent, Outside, request, running
from tests.unit.netplugin.records import asking, key, network

pytestmark = pytest.mark.usefixtures("hurried")
V6 = network(v6=True)


async def added(agent: Agent, asked: PodRequest) -> PodRequest:
    """Add a pod; return the request of a CHECK of it."""
    result = await agent.calls.pods.add(asked)
    agent.learn("k", agent.outside.master.endpoints[key(asked.spec.endpoint)])
    return replace(asked, previous=json.loads(results.added(result, asked)["cni"]))


async def faults(agent: Agent, asked: PodRequest) -> str:
    with pytest.raises(InterfaceDiffers) as caught:
        await agent.calls.checks.check(asked)
    return str(caught.value)


@pytest.mark.parametrize("ifname", ["eth0", "net1"])
async def test_what_an_add_made_is_right(outside: Outside, ifname: str) -> None:
    async with running(outside) as agent:
        await agent.calls.checks.check(await added(agent, request(ifname=ifname)))


def port_gone(agent: Agent) -> None:
    agent.outside.ovsdb.lose("vvport1")


def other_tag(agent: Agent) -> None:
    rows = agent.outside.ovsdb.ports()
    agent.outside.ovsdb.show(ports={**rows, "vvport1": replace(rows["vvport1"], tag=7)})


def other_number(agent: Agent) -> None:
    rows = agent.outside.ovsdb.ports()
    agent.outside.ovsdb.show(ports={**rows, "vvport1": replace(rows["vvport1"], ofport=9)})


def other_owner(agent: Agent) -> None:
    rows = agent.outside.ovsdb.ports()
    changed = replace(rows["vvport1"], external_ids={"endpoint-id": "x"})
    agent.outside.ovsdb.show(ports={**rows, "vvport1": changed})


def inside(**changes: Any) -> Callable[[Agent], None]:
    def change(agent: Agent) -> None:
        held = agent.outside.links.inside
        held["/run/netns/c1", "eth0"] = replace(held["/run/netns/c1", "eth0"], **changes)

    return change


def down(agent: Agent) -> None:
    agent.outside.links.down.add(("/run/netns/c1", "eth0"))


def renamed(agent: Agent) -> None:
    held = agent.outside.links.inside
    held["/run/netns/c1", "other"] = held.pop(("/run/netns/c1", "eth0"))


def host_end_gone(agent: Agent) -> None:
    del agent.outside.links.there["vvport1"]


def unknown_to_the_store(agent: Agent) -> None:
    agent.records.apply(Removed("k", agent.outside.master.endpoints[key("c1")]))


def no_flows(agent: Agent) -> None:
    agent.world.endpoints.remove_port(key("c1"))


def no_session(agent: Agent) -> None:
    agent.outside.switches[Bridge.VXLAN].go(online=False)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (port_gone, f"port vvport1 is missing on {Bridge.VXLAN}"),
        (other_tag, "port vvport1 has VLAN 7 instead of 1"),
        (other_number, "port vvport1 has number 9 instead of 1"),
        (other_owner, "port vvport1 is not marked as that of n1.default-c1"),
        (inside(mac="02:02:00:00:00:09"), "has MAC address 02:02:00:00:00:09 instead of"),
        (inside(addresses=[]), "link eth0 has no address 10.1.0.1/16"),
        (inside(gateways=[]), "link eth0 has no default route by 10.1.255.254"),
        (down, "link eth0 is down"),
        (renamed, "link eth0 is missing in /run/netns/c1"),
        (host_end_gone, "link vvport1 is missing"),
        (unknown_to_the_store, "the store does not know endpoint n1.default-c1"),
        (no_flows, f"endpoint n1.default-c1 has no flows on {Bridge.VXLAN}"),
        (no_session, f"bridge {Bridge.VXLAN} has no OpenFlow session"),
    ],
)
async def test_each_difference_is_named(
    outside: Outside, spoil: Callable[[Agent], None], text: str
) -> None:
    async with running(outside) as agent:
        asked = await added(agent, request())
        await agent.calls.checks.check(asked)
        spoil(agent)
        assert text in await faults(agent, asked)


async def test_all_differences_are_named_at_once(outside: Outside) -> None:
    async with running(outside) as agent:
        asked = await added(agent, request())
        down(agent)
        port_gone(agent)
        text = await faults(agent, asked)
        assert "port vvport1 is missing" in text
        assert "link eth0 is down" in text


@pytest.mark.parametrize(
    ("member", "value", "text"),
    [
        ("interfaces", [], "prevResult has no interface eth0 in /run/netns/c1"),
        ("ips", [], "prevResult lacks the address 10.1.0.1/16 of eth0"),
        ("ips", [{"interface": 1, "address": "10.9.9.9/8"}], "has the address 10.9.9.9/8"),
    ],
)
async def test_a_runtime_that_remembers_otherwise(
    outside: Outside, member: str, value: object, text: str
) -> None:
    async with running(outside) as agent:
        asked = await added(agent, request())
        assert text in await faults(
            agent, replace(asked, previous={**asked.previous, member: value})
        )


async def test_a_lost_limit_of_what_a_pod_receives_is_named(outside: Outside) -> None:
    async with running(outside) as agent:
        asked = await added(agent, asking(request(), receive_limit=BandwidthLimit(10_000, 0)))
        await agent.calls.checks.check(asked)
        there = agent.outside.links.there
        link = there["vvport1"]
        assert link is not None
        there["vvport1"] = replace(link, rate=0)
        assert "link vvport1 does not limit the pod to 10000 kbit/s" in await faults(agent, asked)


async def test_other_plugins_of_the_chain_may_add_to_the_result(outside: Outside) -> None:
    async with running(outside) as agent:
        asked = await added(agent, request())
        previous: dict[str, Any] = json.loads(json.dumps(asked.previous))
        previous["interfaces"].append({"name": "ifb0", "mac": "02:00:00:00:00:01"})
        previous["ips"].append({"interface": 2, "address": "192.0.2.1/24"})
        await agent.calls.checks.check(replace(asked, previous=previous))


@pytest.mark.parametrize("broken", [{"ips": 3}, {"interfaces": ["x"]}])
async def test_a_previous_result_that_is_none(outside: Outside, broken: dict[str, Any]) -> None:
    async with running(outside) as agent:
        asked = await added(agent, request())
        with pytest.raises(BadCall):
            await agent.calls.checks.check(replace(asked, previous={**asked.previous, **broken}))


async def test_an_interface_that_was_never_added(outside: Outside) -> None:
    async with running(outside) as agent:
        asked = await added(agent, request())
        assert "no such interface" in await faults(agent, asking(asked, ifname="net1"))
        assert "no such interface" in await faults(agent, asking(asked, container_id="c2"))


async def test_another_namespace(outside: Outside) -> None:
    async with running(outside) as agent:
        asked = await added(agent, request())
        assert "prevResult" not in await faults(agent, asking(asked, netns="/run/netns/other"))
        outside.links.dead.add("/run/netns/c1")
        with pytest.raises(HostError, match="/run/netns/c1"):
            await agent.calls.checks.check(asked)


async def test_a_check_waits_for_the_add(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("inside")
        adding = asyncio.gather(agent.calls.pods.add(request()))
        await outside.faults.until("inside")
        checking = asyncio.gather(agent.calls.checks.check(request()), return_exceptions=True)
        await outside.faults.quiet()
        assert not checking.done()
        gate.set()
        await adding
        (outcome,) = await checking
        assert isinstance(outcome, InterfaceDiffers)
        assert "no such interface" not in str(outcome)
