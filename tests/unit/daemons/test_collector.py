"""The garbage collector of a daemon: enabled, not often, without the objects of start-up."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from daemons.collector import tune_garbage_collector

WAITING = 10_000
"""Objects in cycles that may wait for a collection, of some 100 bytes each."""


class Message:
    """Refers to itself, as those of pyroute2 do."""

    def __init__(self) -> None:
        self.chain = [self]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.enable()
    gc.set_threshold(*threshold)


def test_it_is_on_again_and_not_often() -> None:
    gc.disable()
    tune_garbage_collector()
    assert gc.isenabled()
    assert gc.get_threshold()[0] >= 5_000
    assert gc.get_freeze_count() > 0


def test_cycles_wait_in_bounds() -> None:
    tune_garbage_collector()
    waiting: set[int] = set()
    most = 0
    for number in range(2 * WAITING):
        waiting.add(number)
        weakref.finalize(Message(), waiting.discard, number)
        most = max(most, len(waiting))
    assert most <= WAITING
