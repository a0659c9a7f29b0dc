"""GC: releases what a runtime no longer lists, of its own network, and nothing else."""

import asyncio
from dataclasses import replace

import pytest

from core.errors import HostError
from netplugin.cni.request import GcRequest, PodRequest
from tests.unit.netplugin.agent import Outside, eventually, left_nothing, request, running
from tests.unit.netplugin.records import asking, key, network

pytestmark = pytest.mark.usefixtures("hurried")


def named(container: str, name: str = "net-a", *, ifname: str = "eth0") -> PodRequest:
    asked = request(container, ifname=ifname)
    return asking(asked, network_name=name, attachment_id=container)


def gc(*keep: tuple[str, str], name: str = "net-a") -> GcRequest:
    return GcRequest(network_name=name, keep=frozenset(keep))


async def test_what_is_not_listed_is_released(outside: Outside) -> None:
    async with running(outside) as agent:
        for one in (named("c1"), named("c1", ifname="net1"), named("c2"), named("c3", "net-b")):
            await agent.calls.pods.add(one)
        for _ in range(2):  # the second finds nothing to do
            await agent.calls.collection.collect(gc(("c1", "eth0")))
            await eventually(
                lambda: outside.master.endpoints.keys() == {key("c1"), key("c3")},
            )
        await eventually(lambda: outside.journal.entries.keys() == {key("c1"), key("c3")})


async def test_an_empty_list_releases_all_of_the_network(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.calls.pods.add(named("c1"))
        await agent.calls.collection.collect(gc(name="other"))
        assert outside.master.endpoints.keys() == {key("c1")}
        await agent.calls.collection.collect(gc())
        await left_nothing(agent)


async def test_an_add_in_progress_is_left_alone(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("inside")
        adding = asyncio.gather(agent.calls.pods.add(named("c1")))
        await outside.faults.until("inside")
        await agent.calls.collection.collect(gc())
        gate.set()
        await adding
        await outside.faults.quiet()
        assert outside.master.endpoints.keys() == {key("c1")}


async def test_an_interface_that_was_just_added_is_left_alone(outside: Outside) -> None:
    """A runtime makes its list before it starts the plugin: it lacks what was added meanwhile."""
    outside.timing = replace(outside.timing, pods=replace(outside.timing.pods, collect_grace=60.0))
    async with running(outside) as agent:
        await agent.calls.pods.add(named("c1"))
        await agent.calls.collection.collect(gc())
        assert outside.master.endpoints.keys() == {key("c1")}
        await agent.calls.pods.delete(named("c1"))
        await left_nothing(agent)


async def test_a_restart_ends_the_grace_of_an_interface(outside: Outside) -> None:
    outside.timing = replace(outside.timing, pods=replace(outside.timing.pods, collect_grace=60.0))
    async with running(outside) as agent:
        await agent.calls.pods.add(named("c1"))
    async with running(outside) as agent:
        await agent.calls.collection.collect(gc())
        await eventually(lambda: not outside.journal.entries)
        assert not outside.master.endpoints


async def test_an_interface_of_an_older_agent_is_left_alone(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.calls.pods.add(request())  # neither name nor attachment, as in its journal
        await agent.calls.collection.collect(gc(name=""))
        await outside.faults.quiet()
        assert outside.master.endpoints.keys() == {key("c1")}


async def test_the_sandbox_s_id_is_not_the_attachment_s(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.calls.pods.add(asking(named("sandbox"), attachment_id="c1"))
        await agent.calls.collection.collect(gc(("c1", "eth0")))
        await outside.faults.quiet()
        assert outside.master.endpoints.keys() == {key("sandbox")}
        await agent.calls.collection.collect(gc(("sandbox", "eth0")))
        await left_nothing(agent)


async def test_a_restart_forgets_no_name(outside: Outside) -> None:
    async with running(outside, (network(),)) as agent:
        await agent.calls.pods.add(named("c1"))
    async with running(outside, (network(),)) as agent:
        await agent.calls.collection.collect(gc(name="net-b"))
        assert outside.master.endpoints.keys() == {key("c1")}
        await agent.calls.collection.collect(gc())
        await eventually(lambda: not outside.journal.entries)
        assert not outside.master.endpoints


async def test_a_failure_is_told_and_the_rest_is_done(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.calls.pods.add(named("c1"))
        await agent.calls.pods.add(named("c2"))
        outside.faults.failing["journal removing"] = HostError("disk failure")
        with pytest.raises(HostError, match="disk failure"):
            await agent.calls.collection.collect(gc())
        assert outside.faults.reached["journal removing"] == 2
        del outside.faults.failing["journal removing"]
        await agent.calls.collection.collect(gc())
        await left_nothing(agent)
