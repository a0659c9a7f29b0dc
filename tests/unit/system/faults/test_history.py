"""What an error says of a request, and the order of what happens."""

import pytest

from core.errors import (
    ContivError,
    Exhausted,
    Invalid,
    MasterRefused,
    MasterUnavailable,
    NotFound,
    NotLeader,
)
from tests.system.faults.history import Done, History, NotDone, Refused, Unknown, Verb, outcome_of


def test_what_was_never_sent_has_no_outcome() -> None:
    error = MasterUnavailable("refused")
    error.__cause__ = ConnectionRefusedError()
    assert outcome_of(error) is None


@pytest.mark.parametrize("error", [NotLeader("who"), MasterUnavailable("not done, try again")])
def test_a_master_that_says_that_nothing_was_done_is_believed(error: ContivError) -> None:
    assert outcome_of(error) == NotDone(str(error))


@pytest.mark.parametrize(
    "error",
    [MasterUnavailable("reset", outcome_unknown=True), MasterRefused("store")],
)
def test_other_errors_say_nothing(error: MasterUnavailable | MasterRefused) -> None:
    assert outcome_of(error) == Unknown(str(error))


def test_two_refusals_are_certain() -> None:
    assert outcome_of(NotFound("key not found")) == Refused(absent=True)
    assert outcome_of(Exhausted("none left")) == Refused(absent=False)


def test_an_error_nobody_expected_is_raised() -> None:
    with pytest.raises(Invalid):
        outcome_of(Invalid("body"))


def test_events_are_in_order() -> None:
    history = History()
    first = history.invoke(Verb.CREATE, "c", "n", "e")
    second = history.invoke(Verb.LOOK, "c", "n", "f")
    history.end(second, Done("10.1.0.1"))
    assert first.invoked < second.invoked < second.ended < first.ended
    assert history.count(Verb.LOOK, Done) == 1
    assert history.count(Verb.CREATE, Done) == 0
    assert history.done == 1
