"""Clients that find no master to ask still end with their crowd, and let the interpreter exit."""

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from tests.bed.janitor import Ledger
from tests.bed.netns import Namespace, free_port
from tests.bed.waiting import eventually
from tests.system.faults.clients import Crowd

T = TypeVar("T")


class NoNamespace(Namespace):
    """Where the test is."""

    def call(self, function: Callable[[], T]) -> T:
        return function()


@pytest.fixture
def crowd(tmp_path: Path) -> Crowd:
    """Give clients whose masters are all dead."""
    place = NoNamespace("none", keeper=Ledger(tmp_path / "ledger"))
    return Crowd(place, [f"http://127.0.0.1:{free_port()}"], ["network"], Random(1))


def test_clients_that_wait_for_a_master_end_with_their_crowd(crowd: Crowd) -> None:
    before = threading.active_count()
    with crowd:
        crowd.start(["one", "two"])
        eventually(lambda: crowd.asked == 2, "both have asked")
    assert threading.active_count() == before


def test_a_crowd_that_was_never_started_ends(crowd: Crowd) -> None:
    with crowd:
        assert crowd.done == 0
