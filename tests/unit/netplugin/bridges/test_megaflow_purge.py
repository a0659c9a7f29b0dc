"""Megaflows are purged after changes, as often as needed and where Open vSwitch needs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.errors import SwitchUnavailable
from core.retry import Pace, begin_loops
from core.tasks import background
from netplugin.bridges.megaflow_purge import PURGE, MegaflowPurger, is_affected
from tests.unit.netplugin.agent import eventually, turns
from tests.unit.netplugin.fakes import FakeControl


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("ovs-vswitchd (Open vSwitch) 3.1.0\n", True),
        ("ovs-vswitchd (Open vSwitch) 3.1.2", True),
        ("ovs-vswitchd (Open vSwitch) 3.1.3", False),
        ("3.0.4", True),
        ("3.0.5", False),
        ("2.17.7", True),
        ("2.17.8", False),
        ("2.17.10", False),
        ("2.16.9", True),
        ("2.15.0", True),
        ("3.2.0", False),
        ("3.10.0", False),
        ("4.0.0", False),
        ("of my own", True),
    ],
)
def test_the_releases_that_need_it(version: str, affected: bool) -> None:
    """The finding of docs/notes/trust.md §5."""
    assert is_affected(version) is affected


class Purged:
    """A purger, its loop, and the requests that are done."""

    def __init__(self, version: str) -> None:
        self.control = FakeControl(version)
        self.loops = begin_loops()
        self.done: list[int] = []
        self.purger = MegaflowPurger(self.control, pause=0.001, pace=Pace(0.001, 0.001))

    def request(self, number: int) -> None:
        self.purger.request(lambda: self.done.append(number))


@asynccontextmanager
async def purging(version: str = "3.1.0") -> AsyncIterator[Purged]:
    purged = Purged(version)
    async with background("megaflows", purged.purger.run()):
        yield purged


async def test_a_request_is_done_after_a_purge() -> None:
    async with purging() as purged:
        purged.control.free.clear()
        purged.request(1)
        await turns()
        assert (purged.control.commands, purged.done) == (["version", PURGE], [])
        purged.control.free.set()
        await eventually(lambda: purged.done == [1])


async def test_requests_during_a_purge_share_the_next() -> None:
    async with purging() as purged:
        purged.control.free.clear()
        purged.request(1)
        await turns()
        for number in (2, 3, 4):
            purged.request(number)
        await turns()
        assert purged.control.commands.count(PURGE) == 1
        purged.control.free.set()
        await eventually(lambda: purged.done == [1, 2, 3, 4])
        assert purged.control.commands.count(PURGE) == 2


async def test_a_release_with_the_fix_is_not_purged() -> None:
    async with purging("3.1.3") as purged:
        purged.request(1)
        await eventually(lambda: purged.done == [1])
        purged.request(2)
        await eventually(lambda: purged.done == [1, 2])
        assert purged.control.commands == ["version"]


async def test_another_daemon_is_asked_for_its_release() -> None:
    async with purging("3.1.3") as purged:
        purged.request(1)
        await eventually(lambda: purged.done == [1])
        purged.control.pid, purged.control.version = 2, "3.1.0"
        purged.request(2)
        await eventually(lambda: purged.done == [1, 2])
        assert purged.control.commands == ["version", "version", PURGE]


async def test_a_daemon_that_does_not_answer_is_a_fault_and_holds_nothing_up() -> None:
    async with purging() as purged:
        purged.control.fault = SwitchUnavailable("no answer")
        purged.request(1)
        await eventually(lambda: purged.done == [1])
        (fault,) = purged.loops.faults()
        assert fault == "megaflows not purged: no answer: packets may go by flows of before"
        purged.control.fault = None
        await eventually(lambda: purged.loops.faults() == [])
        assert purged.control.commands[-1] == PURGE
        assert purged.done == [1]
