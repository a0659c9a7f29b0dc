"""When a lease is renewed, and that its loss is told without another wait."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from objdb.keepalive import GONE, Keepalive, Renew

TTL = 60.0
THIRD = TTL / 3


class Unhurried(Event):
    """Notes for how long it is waited, and waits for nothing."""

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
    """Run a renewal to the lease's end, which must be told; return its pauses."""
    told, clock = Event(), Unhurried()
    renewal = Keepalive(granting(*answers), until=time.monotonic() + TTL, ttl=TTL, on_lost=told.set)
    renewal._stop_asked = clock
    renewal.run()
    assert told.is_set()
    assert renewal.is_lost()
    return clock.pauses


def test_a_lease_that_is_granted_is_renewed_at_a_third() -> None:
    assert pauses_of(TTL, TTL, GONE)[:3] == [THIRD] * 3


def test_what_is_not_answered_is_asked_again_soon() -> None:
    first, second, third, *_ = pauses_of(None, TTL, GONE)
    assert first == third == THIRD
    assert second is not None
    assert second < 1


def test_an_end_that_the_store_tells_is_told_at_once() -> None:
    first, last = pauses_of(GONE)
    assert first == THIRD
    assert last is not None
    assert last < 1
