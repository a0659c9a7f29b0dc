"""Stages of ADDs: those of one ADD for its log line, all for the histograms."""

import asyncio
from collections.abc import Collection
from unittest.mock import Mock

import pytest

from netplugin.pods.registry import add_stages
from netplugin.pods.registry.add_stages import AddStages, shown


def counted(stages: AddStages) -> dict[str, int]:
    return {labels[0]: sum(one.counts) for labels, one in stages.seconds.copy().items()}


def test_bodies_that_do_not_fail_are_noted() -> None:
    stages = AddStages()
    times = stages.begin()
    with stages.timed("good"):
        pass
    with pytest.raises(ValueError), stages.timed("bad"):
        raise ValueError
    assert counted(stages) == {"good": 1}
    assert set(times.seconds) == {"good"}


def test_a_stage_that_comes_twice_took_both_together() -> None:
    stages = AddStages()
    times = stages.begin()
    stages.note("port", 0.25)
    stages.note("port", 0.5)
    assert times.seconds == {"port": 0.75}
    assert counted(stages) == {"port": 2}
    assert shown(times) == "port 0.7500"


async def test_adds_side_by_side_have_stages_of_their_own() -> None:
    stages, met = AddStages(), asyncio.Barrier(2)

    async def step(name: str) -> None:
        with stages.timed(name):
            await met.wait()

    async def add(name: str) -> Collection[str]:
        times = stages.begin()
        async with asyncio.TaskGroup() as steps:
            steps.create_task(step(name))
        return times.seconds.keys()

    first, second = await asyncio.gather(add("link"), add("grant"))
    assert (set(first), set(second)) == ({"link"}, {"grant"})


def test_what_belongs_to_no_add_is_counted_alone() -> None:
    stages = AddStages()
    stages.note("port", 0.25)
    assert counted(stages) == {"port": 1}


def test_a_timeline_has_each_stage_by_when_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 101.0, 103.0, 104.0))
    monkeypatch.setattr(add_stages, "time", Mock(monotonic=lambda: next(clock)))
    times = AddStages().begin()
    for stage, seconds in (("grant", 0.5), ("port", 1.5), ("port", 0.25)):
        times.note(stage, seconds)
    assert list(times.timeline()) == [("grant", 0.5, 0.5), ("port", 2.25, 1.75)]
