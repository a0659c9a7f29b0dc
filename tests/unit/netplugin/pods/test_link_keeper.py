"""Pods' links that are down are set up; those that are gone are said, and nothing else is."""

from ipaddress import IPv4Network

import pytest

from core.errors import HostError
from core.tasks import background
from netplugin.pods.link_keeper import SUBJECT, LinkKeeper
from ofnet.world import HostPort
from tests.unit.netplugin.agent import Agent, Outside, eventually, request, running, stays
from tests.unit.netplugin.records import network

MISSING = "link vvport1 of pod c1 is missing: delete the pod"


@pytest.fixture
async def outside() -> Outside:
    outside = Outside.new()
    outside.set_timing(link_rescan=0.0, links_checked=0.01, link_gone=0.0)
    return outside


def errors(agent: Agent) -> tuple[str, ...]:
    return agent.progress.standing.errors


def keeper(agent: Agent) -> LinkKeeper:
    return agent.pod_services.link_keeper


def cut(outside: Outside, name: str) -> None:
    """Delete a link as somebody on the host does."""
    del outside.links.there[name]
    outside.links.changed.set()


async def test_a_link_that_is_down_is_set_up_on_the_event() -> None:
    outside = Outside.new()
    outside.set_timing(link_rescan=0.0, links_checked=60.0)
    async with running(outside) as agent:
        await agent.pods.add(request("c1"))
        async with background(SUBJECT, keeper(agent).run()):
            await outside.faults.until("keep up")
            outside.links.host_ends_down.add("vvport1")
            outside.links.changed.set()
            await eventually(lambda: not outside.links.host_ends_down)
            assert errors(agent) == ()


async def test_a_link_that_is_gone_is_said_until_its_pod_is_deleted(outside: Outside) -> None:
    async with running(outside) as agent, background(SUBJECT, keeper(agent).run()):
        await agent.pods.add(request("c1"))
        await keeper(agent).whole()
        cut(outside, "vvport1")
        await eventually(lambda: errors(agent) == (MISSING,))
        with pytest.raises(HostError, match=MISSING):
            await keeper(agent).whole()
        await agent.pods.delete(request("c1"))
        await eventually(lambda: errors(agent) == ())
        await keeper(agent).whole()


async def test_a_link_that_is_back_is_not_said_any_more(outside: Outside) -> None:
    async with running(outside) as agent, background(SUBJECT, keeper(agent).run()):
        await agent.pods.add(request("c1"))
        link = outside.links.there["vvport1"]
        cut(outside, "vvport1")
        await eventually(lambda: errors(agent) == (MISSING,))
        outside.links.there["vvport1"] = link
        await eventually(lambda: errors(agent) == ())


async def test_a_pod_that_ended_is_not_blamed(outside: Outside) -> None:
    async with running(outside) as agent, background(SUBJECT, keeper(agent).run()):
        await agent.pods.add(request("c1"))
        outside.links.end("/run/netns/c1")
        await stays(lambda: errors(agent) == (), 0.1)


async def test_what_a_call_works_on_is_left_alone(outside: Outside) -> None:
    async with running(outside) as agent, background(SUBJECT, keeper(agent).run()):
        await agent.pods.add(request("c1"))
        async with agent.registry.lock("c1"):
            outside.links.host_ends_down.add("vvport1")
            cut(outside, "vvport1")
            await stays(lambda: errors(agent) == () and bool(outside.links.host_ends_down), 0.1)


async def test_an_interface_to_the_host_is_kept_too(outside: Outside) -> None:
    private = HostPort(ofport=9, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
    async with running(outside, (network(gateway=""),)) as agent:
        agent.world.endpoints.set_host_port(private)
        await agent.pods.add(request("c1"))
        async with background(SUBJECT, keeper(agent).run()):
            outside.links.host_ends_down.add("hport1")
            await eventually(lambda: not outside.links.host_ends_down)
            cut(outside, "hport1")
            await eventually(lambda: "link hport1 of pod c1 is missing" in "".join(errors(agent)))


async def test_a_refusal_is_said_with_its_reason(outside: Outside) -> None:
    async with running(outside) as agent, background(SUBJECT, keeper(agent).run()):
        await agent.pods.add(request("c1"))
        outside.faults.failing["set up"] = HostError("no")
        outside.links.host_ends_down.add("vvport1")
        await eventually(
            lambda: errors(agent) == ("link vvport1 of pod c1 is down and cannot be set up: no",)
        )
        outside.faults.failing.clear()
        await eventually(lambda: errors(agent) == ())


async def test_many_events_are_one_look() -> None:
    outside = Outside.new()
    outside.set_timing(link_rescan=60.0, links_checked=60.0)
    async with running(outside) as agent:
        await agent.pods.add(request("c1"))
        async with background(SUBJECT, keeper(agent).run()):
            await outside.faults.until("keep up")
            for _ in range(200):
                outside.links.changed.set()
            await stays(lambda: outside.faults.reached["keep up"] <= 2, 0.1)


async def test_links_that_cannot_be_read_are_an_error_until_they_are(outside: Outside) -> None:
    async with running(outside) as agent, background(SUBJECT, keeper(agent).run()):
        outside.faults.failing["keep up"] = HostError("no")
        await agent.pods.add(request("c1"))
        await eventually(lambda: errors(agent) == ("links of pods not read: no",))
        with pytest.raises(HostError, match="links of pods not read: no"):
            await keeper(agent).whole()
        outside.faults.failing.clear()
        await eventually(lambda: errors(agent) == ())
        await keeper(agent).whole()
