"""Stages of ADDs: those of one ADD for its log line, all for the histograms."""

import asyncio

import pytest

from netplugin.pods.registry.add_stages import AddStages, shown


def counted(stages: AddStages) -> dict[str, int]:
    return {labels[0]: sum(one.counts) for labels, one in stages.seconds.copy().items()}


def test_bodies_that_do_not_fail_are_noted() -> None:
    stages = AddStages()
    noted = stages.begin()
    with stages.timed("good"):
        pass
    with pytest.raises(ValueError), stages.timed("bad"):
        raise ValueError
    assert counted(stages) == {"good": 1}
    assert set(noted) == {"good"}


def test_a_stage_that_comes_twice_took_both_together() -> None:
    stages = AddStages()
    noted = stages.begin()
    stages.note("port", 0.25)
    stages.note("port", 0.5)
    assert noted == {"port": 0.75}
    assert counted(stages) == {"port": 2}
    assert shown(noted) == "port 0.7500"


async def test_adds_side_by_side_have_stages_of_their_own() -> None:
    stages, met = AddStages(), asyncio.Barrier(2)

    async def step(name: str) -> None:
        with stages.timed(name):
            await met.wait()

    async def add(name: str) -> dict[str, float]:
        noted = stages.begin()
        async with asyncio.TaskGroup() as steps:
            steps.create_task(step(name))
        return noted

    first, second = await asyncio.gather(add("link"), add("grant"))
    assert (set(first), set(second)) == ({"link"}, {"grant"})


def test_what_belongs_to_no_add_is_counted_alone() -> None:
    stages = AddStages()
    stages.note("port", 0.25)
    assert counted(stages) == {"port": 1}
