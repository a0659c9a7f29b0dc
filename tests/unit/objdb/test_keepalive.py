"""When a lease is renewed, and that its loss is reported without another wait."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from objdb.keepalive import LEASE_ENDED, Keepalive, Renew

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
    keepalive = Keepalive(
        granting(*answers),
        until=time.monotonic() + TTL,
        ttl=TTL,
        on_lost=lost.set,
        stop_requested=waits,
    )
    keepalive.run()
    assert lost.is_set()
    assert keepalive.is_lost()
    return waits.pauses


def test_a_lease_that_is_granted_is_renewed_at_a_third() -> None:
    assert pauses_of(TTL, TTL, LEASE_ENDED)[:3] == [THIRD] * 3


def test_an_unanswered_renewal_is_repeated_soon() -> None:
    first, second, third, *_ = pauses_of(None, TTL, LEASE_ENDED)
    assert first == third == THIRD
    assert second is not None
    assert second < 1


def test_an_end_reported_by_the_store_is_reported_at_once() -> None:
    first, last = pauses_of(LEASE_ENDED)
    assert first == THIRD
    assert last is not None
    assert last < 1
