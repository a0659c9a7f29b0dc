"""What fails is repeated in growing pauses, logged, counted, and a fault until it succeeds.

No second passes: pauses are written down, and the clock is set by hand.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

import pytest

from core.errors import HostError, Invalid, StoreUnavailable
from core.retry import Loop, Loops, Pace, begin_loops, present_loops, retry
from core.tasks import background

log = logging.getLogger(__name__)

NAME = "rules not set"


@dataclass
class Daemon:
    """A daemon's loops, on a clock that waiting moves."""

    at: float = 1000.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    shown: list[tuple[str, list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loops = Loops(lambda: self.at, self._later)
        self.loops.report_to(self._show)

    def loop(self, *, about: str = "", patience: float = 0.0, vital: bool = False) -> Loop:
        return Loop(
            log,
            NAME,
            about=about,
            pace=Pace(0.5, 3.0),
            patience=patience,
            vital=vital,
            loops=self.loops,
            jitter=lambda: 0.0,
        )

    async def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.pass_(seconds)

    def pass_(self, seconds: float) -> None:
        self.at += seconds
        due = [one for one in self.timers if one[0] <= self.at]
        self.timers = [one for one in self.timers if one not in due]
        for _, call in due:
            call()

    def _later(self, delay: float, call: Callable[[], None]) -> None:
        self.timers.append((self.at + delay, call))

    def _show(self, subject: str, faults: Iterable[str]) -> None:
        self.shown.append((subject, list(faults)))


@dataclass
class Work:
    """Fails so often, then returns how often it was attempted."""

    failures: int
    error: Exception = field(default_factory=lambda: HostError("no room"))
    attempts: int = 0

    async def attempt(self) -> int:
        self.attempts += 1
        if self.attempts <= self.failures:
            raise self.error
        return self.attempts


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


def test_pauses_double_up_to_the_longest_each_up_to_a_quarter_shorter() -> None:
    assert [*islice(Pace(0.1, 0.5).pauses(lambda: 0.0), 5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    shorter = [*islice(Pace(0.1, 0.5).pauses(lambda: 1.0), 4)]
    assert shorter == pytest.approx([0.075, 0.15, 0.3, 0.375])
    assert all(0.75 <= pause <= 1 for pause in islice(Pace(1, 1).pauses(), 50))


async def test_the_first_success_is_returned(daemon: Daemon) -> None:
    assert await retry(daemon.loop(), Work(4).attempt, daemon.wait) == 5
    assert daemon.pauses == [0.5, 1.0, 2.0, 3.0]


async def test_a_fault_is_shown_until_the_first_success(daemon: Daemon) -> None:
    await retry(daemon.loop(), Work(2).attempt, daemon.wait)
    fault = f"{NAME}: no room"
    assert daemon.shown == [(NAME, [fault]), (NAME, [fault]), (NAME, [])]
    assert daemon.loops.faults() == []


async def test_failures_are_counted_from_0_by_name(daemon: Daemon) -> None:
    first, second = daemon.loop(about="v4"), daemon.loop(about="v6")
    assert daemon.loops.failures == {NAME: 0}
    await retry(first, Work(2).attempt, daemon.wait)
    await retry(second, Work(1).attempt, daemon.wait)
    assert daemon.loops.failures == {NAME: 3}


async def test_failures_and_their_end_have_one_form_in_the_log(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await retry(daemon.loop(about="link vvport3"), Work(1).attempt, daemon.wait)
    failed, resolved = caplog.records
    assert failed.getMessage() == "rules not set, retrying"
    assert failed.__dict__["object"] == "link vvport3"
    assert failed.__dict__["error"] == "no room"
    assert resolved.getMessage() == "rules not set: resolved"
    assert (failed.levelname, resolved.levelname) == ("WARNING", "INFO")


async def test_success_at_once_says_nothing(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await retry(daemon.loop(), Work(0).attempt, daemon.wait)
    assert (caplog.records, daemon.shown) == ([], [])


async def test_another_error_ends_the_loop_and_its_fault(daemon: Daemon) -> None:
    work = Work(1)

    async def attempt() -> None:
        await work.attempt()
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await retry(daemon.loop(), attempt, daemon.wait)
    assert daemon.loops.faults() == []


async def test_only_errors_of_the_loop_are_failures(daemon: Daemon) -> None:
    loop = Loop(log, NAME, errors=StoreUnavailable, loops=daemon.loops)
    with pytest.raises(Invalid):
        await retry(loop, Work(1, Invalid("nonsense")).attempt, daemon.wait)
    assert daemon.loops.failures == {NAME: 0}


async def test_a_cancelled_loop_leaves_no_fault(daemon: Daemon) -> None:
    failed = asyncio.Event()

    async def wait(_seconds: float) -> None:
        failed.set()
        await asyncio.Event().wait()

    async with background("loop", retry(daemon.loop(), Work(1).attempt, wait)):
        await failed.wait()
        assert daemon.loops.faults() == [f"{NAME}: no room"]
    assert daemon.loops.faults() == []
    assert daemon.shown[-1] == (NAME, [])


async def test_faults_of_several_objects_stand_side_by_side(daemon: Daemon) -> None:
    first, second = daemon.loop(about="v4"), daemon.loop(about="v6")
    first.failed(HostError("no room"))
    second.failed(HostError("no program"))
    assert daemon.shown[-1] == (NAME, [f"{NAME}: v4: no room", f"{NAME}: v6: no program"])
    first.succeeded()
    assert daemon.shown[-1] == (NAME, [f"{NAME}: v6: no program"])


async def test_the_remedy_is_behind_the_reason(daemon: Daemon) -> None:
    loop = Loop(log, NAME, remedy="install nft", loops=daemon.loops)
    loop.failed(HostError("no program"))
    assert daemon.loops.faults() == [f"{NAME}: no program: install nft"]


async def test_an_error_without_text_is_named_by_its_class(daemon: Daemon) -> None:
    daemon.loop().failed(TimeoutError())
    assert daemon.loops.faults() == [f"{NAME}: TimeoutError"]


async def test_a_short_fault_is_no_fault_where_patience_is_asked_for(daemon: Daemon) -> None:
    await retry(daemon.loop(patience=3.0), Work(2).attempt, daemon.wait)
    daemon.pass_(10.0)
    assert daemon.shown == []
    assert daemon.loops.failures == {NAME: 2}


async def test_a_lasting_fault_is_shown_although_the_next_attempt_hangs(daemon: Daemon) -> None:
    daemon.loop(patience=3.0).failed(HostError("no room"))
    daemon.pass_(2.9)
    assert daemon.loops.faults() == []
    daemon.pass_(0.1)
    assert daemon.loops.faults() == [f"{NAME}: no room"]
    assert daemon.shown == [(NAME, [f"{NAME}: no room"])]


async def test_a_fault_that_ended_meanwhile_is_not_shown_late(daemon: Daemon) -> None:
    loop = daemon.loop(patience=3.0)
    loop.failed(HostError("no room"))
    loop.succeeded()
    daemon.pass_(2.0)
    loop.failed(HostError("no room"))
    daemon.pass_(2.0)
    assert daemon.shown == []


async def test_what_begins_well_and_fails_at_once_is_not_hurried(daemon: Daemon) -> None:
    loop = daemon.loop()
    pauses = []
    for _ in range(4):
        pauses.append(loop.failed(HostError("no room")))
        loop.works()
        assert daemon.loops.faults() == []
    daemon.pass_(3.1)
    pauses.append(loop.failed(HostError("no room")))
    assert pauses == [0.5, 1.0, 2.0, 3.0, 0.5]


async def test_vital_faults_are_told_apart(daemon: Daemon) -> None:
    daemon.loop(about="v4", vital=True).failed(HostError("no room"))
    daemon.loop(about="v6").failed(HostError("no room"))
    assert daemon.loops.faults(vital=True) == [f"{NAME}: v4: no room"]
    assert len(daemon.loops.faults()) == 2


async def test_what_fails_now_is_counted_by_name_once_it_is_a_fault(daemon: Daemon) -> None:
    assert daemon.loops.failing() == {}
    first, second = daemon.loop(about="v4"), daemon.loop(about="v6", patience=3.0)
    assert daemon.loops.failing() == {NAME: 0}
    for loop in (first, second):
        loop.failed(HostError("no room"))
    assert daemon.loops.failing() == {NAME: 1}
    daemon.pass_(3.0)
    assert daemon.loops.failing() == {NAME: 2}
    first.succeeded()
    second.withdraw()
    assert daemon.loops.failing() == {NAME: 0}


async def test_who_asks_late_hears_of_present_faults(daemon: Daemon) -> None:
    daemon.loop().failed(HostError("no room"))
    later: list[tuple[str, list[str]]] = []
    daemon.loops.report_to(lambda subject, faults: later.append((subject, list(faults))))
    assert later == [(NAME, [f"{NAME}: no room"])]


async def test_two_daemons_of_one_process_keep_their_loops_apart() -> None:
    async def daemon(reason: str) -> list[str]:
        loops = begin_loops()
        await asyncio.sleep(0)

        async def part() -> None:
            Loop(log, NAME).failed(HostError(reason))

        async with background("part", part()) as task:
            await task
        assert present_loops() is loops
        return loops.faults()

    async with background("a", daemon("a")) as a, background("b", daemon("b")) as b:
        assert await a == [f"{NAME}: a"]
        assert await b == [f"{NAME}: b"]
