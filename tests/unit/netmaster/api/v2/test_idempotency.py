"""Answers that are kept: bounded in number, in age and in size."""

import pytest

from core import keys
from core.errors import Malformed, TooLarge
from netmaster.api.http.problems import KeyReused
from netmaster.api.v2.changes import Answer
from netmaster.api.v2.idempotency import (
    KEPT,
    LARGEST,
    MOST,
    MOST_OF_CLIENT,
    ROOM,
    KeyedRequest,
    Replayed,
    once,
)
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View

DONE = Answer(status=201, key="blue", etag='"1"', body="{}")


def keyed(key: str, *, who: str = "joe", body: bytes = b"{}") -> KeyedRequest:
    return KeyedRequest.of(key, who, "POST /api/v2/tenants", body)


def make(view: View, request: KeyedRequest, now: float = 0.0, answer: Answer = DONE) -> Plan:
    """Make a change that writes nothing else."""
    plan = once(lambda _: Plan((), reply=answer), request, now)(view)
    view.apply(plan.writes)
    return plan


def test_the_first_answer_is_given_again() -> None:
    view = View()
    assert make(view, keyed("k")).reply == DONE
    assert make(view, keyed("k"), answer=Answer(status=200, key="x")).reply == Replayed(DONE)
    assert make(view, keyed("k", who="ann")).reply == DONE
    with pytest.raises(KeyReused):
        make(view, keyed("k", body=b"[]"))


def test_the_oldest_answers_go() -> None:
    view = View()
    for number in range(MOST + 3):
        make(view, keyed(f"k{number}", who=""), now=float(number))
    assert len(view.answers) == MOST
    assert min(answer.at for answer in view.answers.values()) == 3.0
    for answer in list(view.answers.values())[1:]:
        view.apply([Write(keys.answer(answer.digest), None, new=False)])
    late = make(view, keyed("late"), now=3.5 + KEPT)
    assert [write.record is None for write in late.writes] == [False, True]


@pytest.mark.parametrize("number_of_others", [1, 7])
def test_clients_push_out_their_own_answers(number_of_others: int) -> None:
    view = View()
    make(view, keyed("mine", who="joe"))
    others = [f"operator{number}" for number in range(number_of_others)]
    for number in range(MOST + 100):
        make(view, keyed(f"k{number}", who=others[number % len(others)]), now=1.0 + number)
    assert make(view, keyed("mine", who="joe"), now=5000.0).reply == Replayed(DONE)
    assert len(view.answers) == min(MOST, MOST_OF_CLIENT * len(others) + 1)
    last = make(view, keyed(f"k{MOST + 99}", who=others[(MOST + 99) % len(others)]), now=5000.0)
    assert last.reply == Replayed(DONE)


def test_answers_of_an_older_release_are_of_no_client() -> None:
    view = View()
    for number in range(MOST):
        make(view, keyed(f"k{number}", who=""), now=float(number))
    make(view, keyed("new", who="joe"), now=2000.0)
    assert len(view.answers) == MOST
    assert make(view, keyed("new", who="joe"), now=2001.0).reply == Replayed(DONE)


def test_a_large_change_removes_no_old_answer() -> None:
    view = View()
    make(view, keyed("old"))
    writes = tuple(Write(f"{keys.ANSWERS}x{n}", None, new=True) for n in range(ROOM + 1))
    plan = once(lambda _: Plan(writes, reply=DONE), keyed("new"), 2 * KEPT)(view)
    assert len(plan.writes) == len(writes) + 1


def test_a_large_answer_is_not_kept() -> None:
    with pytest.raises(TooLarge):
        make(View(), keyed("k"), answer=Answer(status=200, key="x", body="x" * (LARGEST + 1)))


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 129, "a\n"])
def test_what_is_no_key_is_malformed(key: str) -> None:
    with pytest.raises(Malformed):
        keyed(key)
