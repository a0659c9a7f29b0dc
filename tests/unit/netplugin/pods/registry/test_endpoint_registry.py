"""Whose turn it is: one container's work is serial, and shows while it lasts."""

import asyncio
from dataclasses import replace

from netplugin.pods.registry.endpoint_registry import EndpointRegistry
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from tests.unit.netplugin.agent import eventually
from tests.unit.netplugin.records import interface, key

ENTRY = JournalEntry(
    key=key("c1"),
    spec=interface(),
    port=7,
    bridge="contivVxlanBridge",
    state=EntryState.PRESENT,
)


def test_an_endpoint_is_found_until_it_is_dropped() -> None:
    registry = EndpointRegistry()
    registry.put(ENTRY)
    assert registry.find("c1", "eth0") == registry.get(key("c1")) == ENTRY
    assert registry.find("c1", "net1") is None
    assert registry.keys() == {key("c1")}
    assert registry.ports() == {7}
    registry.remove(key("c1"))
    assert registry.find("c1", "eth0") is registry.get(key("c1")) is None


def test_an_endpoint_that_is_half_made_is_not_settled() -> None:
    registry = EndpointRegistry()
    registry.put(replace(ENTRY, state=EntryState.ADDING))
    assert registry.idle() == []
    registry.put(ENTRY)
    assert registry.idle() == [ENTRY]


async def test_work_on_one_container_is_serial_and_on_others_goes_on() -> None:
    registry, order, gate = EndpointRegistry(), list[str](), asyncio.Event()
    registry.put(ENTRY)

    async def work(container: str, name: str) -> None:
        async with registry.lock(container):
            order.append(name)
            if name == "first":
                await gate.wait()

    async with asyncio.TaskGroup() as tasks:
        for container, name in (("c1", "first"), ("c1", "second"), ("c2", "other")):
            tasks.create_task(work(container, name))
        await eventually(lambda: order == ["first", "other"])
        assert registry.idle() == []
        gate.set()
    assert order == ["first", "other", "second"]
    assert registry.idle() == [ENTRY]
