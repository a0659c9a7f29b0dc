"""The garbage collector of a daemon: enabled, rare, and without the objects of start-up."""

import gc
from collections.abc import Iterator

import pytest

from daemons.collector import tune_garbage_collector


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.enable()
    gc.set_threshold(*threshold)


def test_it_is_on_again_and_rare() -> None:
    gc.disable()
    tune_garbage_collector()
    assert gc.isenabled()
    assert gc.get_threshold()[0] >= 100_000
    assert gc.get_freeze_count() > 0
