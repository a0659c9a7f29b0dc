"""Which free address is granted next, while others rest."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.addresses import Subnet, ipv4
from core.ids import GroupKey
from netmaster.ipam.pool import Pool
from netmaster.ipam.resting import Resting

BASE = ipv4("10.1.1.0")
LOW, HIGH = BASE + 1, BASE + 8
POOLED = range(BASE + 5, BASE + 8)
GROUP = GroupKey("g:t")
address = st.integers(LOW, HIGH)


class Rests(RuleBasedStateMachine):
    """A pool beside a model: the free addresses, and when each was released.

    See docs/notes/trust.md §17.
    """

    @initialize(seconds=st.sampled_from([0, 1, 5]))
    def start(self, seconds: int) -> None:
        self.now = 0.0
        self.seconds = seconds
        resting = Resting(float(seconds), lambda: self.now)
        self.pool = Pool(Subnet(BASE, 24), LOW, HIGH, resting)
        self.free = set(range(LOW, HIGH + 1))
        self.released: dict[int, float] = {}
        self.carved = False

    @rule(seconds=st.integers(0, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(grouped=st.booleans())
    def grant_next(self, grouped: bool) -> None:
        taken = self.pool.lowest(GROUP if grouped else None)
        if taken is not None:
            self.take(taken)

    @rule(taken=address)
    def take(self, taken: int) -> None:
        self.pool.take(taken)
        self.free.discard(taken)

    @rule(given=address)
    def release(self, given: int) -> None:
        if given not in self.free:
            self.pool.release(given)
            self.free.add(given)
            self.released.pop(given, None)
            self.released[given] = self.now

    @rule()
    @precondition(lambda self: not self.carved)
    def carve(self) -> None:
        self.pool.carve(GROUP, POOLED[0], POOLED[-1])
        self.carved = True

    @rule()
    @precondition(lambda self: self.carved)
    def restore(self) -> None:
        self.pool.restore(GROUP)
        self.carved = False

    @invariant()
    def the_next_is_the_lowest_that_rests_not_else_the_longest_at_rest(self) -> None:
        if not hasattr(self, "pool"):
            return
        for group in (None, GROUP):
            among = {
                free
                for free in self.free
                if not self.carved or (free in POOLED) == (group is GROUP)
            }
            ready = {free for free in among if not self.rests(free)}
            # those that rest, in the order of their release
            longest = next((free for free in self.released if free in among), None)
            assert self.pool.lowest(group) == min(ready, default=longest)

    def rests(self, free: int) -> bool:
        return free in self.released and self.now - self.released[free] < self.seconds


TestResting = Rests.TestCase
