"""Spans of free numbers behave as a set of free numbers does."""

from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from netmaster.ipam.spans import FreeSpans

LOW, HIGH = 3, 40
number = st.integers(LOW - 2, HIGH + 2)


class Spans(RuleBasedStateMachine):
    """Everything done to the spans is done to a set."""

    def __init__(self) -> None:
        super().__init__()
        self.free = FreeSpans(LOW, HIGH)
        self.model = set(range(LOW, HIGH + 1))

    @rule(taken=number)
    def take(self, taken: int) -> None:
        self.free.take(taken)
        self.model.discard(taken)

    @rule(given=number)
    def give(self, given: int) -> None:
        self.free.release(given)
        self.model |= {given} & set(range(LOW, HIGH + 1))

    @rule(first=number, last=number)
    def take_span(self, first: int, last: int) -> None:
        self.free.take_span(first, last)
        self.model -= set(range(first, last + 1))

    @rule(first=number, last=number)
    def release_span(self, first: int, last: int) -> None:
        self.free.release_span(first, last)
        self.model |= set(range(first, last + 1)) & set(range(LOW, HIGH + 1))

    @rule(first=number)
    def lowest_from(self, first: int) -> None:
        expected = min((free for free in self.model if free >= first), default=None)
        assert self.free.lowest_from(first) == expected

    @rule(first=number, last=number)
    def first_taken(self, first: int, last: int) -> None:
        if first <= last:
            held = (number for number in range(first, last + 1) if number not in self.model)
            assert self.free.first_taken(first, last) == next(held, None)

    @invariant()
    def same_numbers_in_spans_that_do_not_touch(self) -> None:
        spans = list(self.free)
        assert {n for first, last in spans for n in range(first, last + 1)} == self.model
        assert all(first <= last for first, last in spans)
        assert all(one[1] + 1 < other[0] for one, other in pairwise(spans))
        assert self.free.lowest() == min(self.model, default=None)
        assert all((n in self.free) == (n in self.model) for n in range(LOW - 2, HIGH + 3))


TestSpans = Spans.TestCase
