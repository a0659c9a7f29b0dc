"""`netplugin.bridges.reconcile_loop`: work that fails is shown, repeated, and delays no change."""

from dataclasses import dataclass, field

from core.change_notifier import ChangeNotifier
from core.errors import HostError
from core.retry import PACE, Loops, Pace, begin_loops
from core.tasks import background
from netplugin.bridges.reconcile_loop import ReconcileLoop
from tests.unit.netplugin.agent import eventually

SUBJECT = "work not in sync"


@dataclass
class Work:
    wanted: int = 0
    done: list[int] = field(default_factory=list)
    failing: str = ""
    loops: Loops = field(default_factory=begin_loops)
    changed: ChangeNotifier = field(default_factory=ChangeNotifier)
    lost: ChangeNotifier = field(default_factory=ChangeNotifier)

    async def converge(self) -> object:
        wanted = self.wanted
        self.done.append(wanted)
        if self.failing:
            raise HostError(self.failing)
        return wanted

    def want(self, wanted: int) -> None:
        self.wanted = wanted
        self.changed.notify()

    def loop(self, pace: Pace = PACE) -> ReconcileLoop:
        return ReconcileLoop(
            name="work",
            converge=self.converge,
            observe=lambda: self.wanted,
            triggers=(lambda: self.changed.next,),
            interval=60.0,
            pace=pace,
            anew=(lambda: self.lost.next,),
        )


async def test_a_failure_is_a_fault_until_the_work_succeeds() -> None:
    work = Work(failing="no space")
    async with background("work", work.loop().run()):
        await eventually(lambda: work.loops.faults() == [f"{SUBJECT}: no space"])
        work.failing = ""
        await eventually(lambda: work.loops.faults() == [])
    assert work.done[-1] == 0


async def test_a_change_does_not_wait_for_the_end_of_a_pause() -> None:
    work = Work(failing="half of it never works")
    async with background("work", work.loop(Pace(10_000, 10_000)).run()):
        await eventually(lambda: work.done == [0])
        work.want(7)
        await eventually(lambda: work.done == [0, 7])


async def test_what_is_lost_is_made_anew_although_nothing_observed_changed() -> None:
    work = Work()
    async with background("work", work.loop().run()):
        await eventually(lambda: work.done == [0])
        work.changed.notify()
        work.lost.notify()
        await eventually(lambda: work.done == [0, 0])
