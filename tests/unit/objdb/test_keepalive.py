"""When a lease is renewed, and that its loss is reported without another wait."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace

import pytest

from objdb.keepalive import LEASE_ENDED, LeaseKeepalive, Renew

TTL = 60.0
THIRD = TTL / 3


class RecordedWaits(Event):
    """Records the timeouts of its waits and returns at once."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        return False


@contextmanager
def granting(*answers: float | None) -> Iterator[Renew]:
    left = iter(answers)
    yield lambda _: next(left)


def pauses_of(*answers: float | None) -> list[float | None]:
    """Run the renewals to the lease's end, which must be reported; return the pauses."""
    lost, waits = Event(), RecordedWaits()
    keepalive = LeaseKeepalive(
        granting(*answers),
        until=time.monotonic() + TTL,
        ttl=TTL,
        lone=True,
        on_lost=lost.set,
        stop_requested=waits,
    )
    keepalive.run()
    assert lost.is_set()
    assert keepalive.is_lost()
    return waits.pauses


def test_a_lease_that_is_granted_is_renewed_at_a_third() -> None:
    assert pauses_of(TTL, TTL, LEASE_ENDED)[:3] == pytest.approx([THIRD] * 3, abs=1)


def test_an_unanswered_renewal_is_repeated_soon() -> None:
    first, second, third, *_ = pauses_of(None, TTL, LEASE_ENDED)
    assert [first, third] == pytest.approx([THIRD] * 2, abs=1)
    assert second is not None
    assert second < 1


def test_an_end_reported_by_the_store_is_reported_at_once() -> None:
    first, last = pauses_of(LEASE_ENDED)
    assert first == THIRD
    assert last is not None
    assert last < 1


def attempts_of(*answers: float | None, ttl: float, lone: bool) -> tuple[list[float], float | None]:
    """Run the renewals to the lease's end; return how long each might take, and the first pause."""
    attempts: list[float] = []
    left = iter(answers)

    @contextmanager
    def recording() -> Iterator[Renew]:
        def renew(attempt: float) -> float | None:
            attempts.append(attempt)
            return next(left)

        yield renew

    waits = RecordedWaits()
    keepalive = LeaseKeepalive(
        recording(),
        until=time.monotonic() + ttl,
        ttl=ttl,
        lone=lone,
        on_lost=lambda: None,
        stop_requested=waits,
    )
    keepalive.run()
    return attempts, waits.pauses[0]


def test_a_lone_member_may_answer_until_the_lease_ends() -> None:
    attempts, _ = attempts_of(None, TTL, LEASE_ENDED, ttl=TTL, lone=True)
    assert attempts == pytest.approx([TTL] * 3, abs=5)


def test_a_silent_member_is_left_soon_for_another_and_each_has_longer() -> None:
    attempts, _ = attempts_of(None, None, None, TTL, None, LEASE_ENDED, ttl=TTL, lone=False)
    assert attempts == [1.0, 2.0, 4.0, 8.0, 1.0, 2.0]
    attempts, _ = attempts_of(*[None] * 9, LEASE_ENDED, ttl=TTL, lone=False)
    assert max(attempts) <= TTL


def test_the_leaders_short_lease_is_renewed_at_an_eighth() -> None:
    _, pause = attempts_of(LEASE_ENDED, ttl=2.0, lone=True)
    assert pause == 0.25


def test_a_renewal_that_is_answered_late_is_followed_by_the_next_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two stalls of a store there may be some milliseconds."""
    now = [0.0]
    monkeypatch.setattr("objdb.keepalive.time", SimpleNamespace(monotonic=lambda: now[0]))
    answers, waits = iter((2.0, LEASE_ENDED)), RecordedWaits()

    @contextmanager
    def stalling() -> Iterator[Renew]:
        def renew(_: float) -> float | None:
            now[0] += 1.2
            return next(answers)

        yield renew

    LeaseKeepalive(
        stalling(),
        until=2.0,
        ttl=2.0,
        lone=True,
        on_lost=lambda: None,
        stop_requested=waits,
    ).run()
    assert waits.pauses[:2] == [0.25, 0.0]
