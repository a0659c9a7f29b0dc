"""netmaster is killed amid changes that take many parts; the next leader finishes them.

It goes a short step and stands still while we look at what the store holds, so that the kill comes
between two parts whatever the machine's speed; after how many of them is random.
"""

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.bed.master import Master
from tests.bed.store import Store
from tests.bed.waiting import eventually
from tests.property.subjects import CLEAN_UP, LARGE, Subject, told
from tests.system.judge import complaints
from tests.system.strikes import Client
from tests.system.succession import leading, send, stored, succeed

pytestmark = [pytest.mark.store, pytest.mark.system, pytest.mark.thorough]

INTERRUPTED: Final = 3
"""How often a change must have been caught half done."""
MOST_KILLS: Final = 30
STEP: Final = 0.001
"""Seconds a master runs between two looks."""


@pytest.mark.parametrize("subject", [*LARGE, CLEAN_UP], ids=lambda subject: subject.kind)
def test_the_next_leader_finishes(subject: Subject, store: Store, bed_dir: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    moments = random.Random(seed)
    with leading(store, bed_dir) as master:
        undisturbed = subject.copy(0)
        before = _begun(master, store, undisturbed)
        send(master, *undisturbed.life)
        whole = _changed(store, before, undisturbed)
        interrupted = kills = 0
        while interrupted < INTERRUPTED and kills < MOST_KILLS:
            kills += 1
            copy = subject.copy(kills)
            before = _begun(master, store, copy)
            _kill_amid(master, store, copy, before, moments.randint(1, len(whole) // 2))
            interrupted += len(_changed(store, before, copy)) < len(whole)
            succeed(master, store)
            _await(store, copy, before, whole)
            assert complaints(stored(store), master.ask) == []
    assert interrupted == INTERRUPTED, f"of {kills} kills {interrupted} came between two parts"


def _begun(master: Master, store: Store, subject: Subject) -> Mapping[str, object]:
    """Make what is to be changed, and return what the store tells of it."""
    send(master, *subject.before)
    return told(stored(store), subject.mark)


def _changed(store: Store, before: Mapping[str, object], subject: Subject) -> set[str]:
    """Return the keys that hold something else now, without the subject's mark."""
    now = told(stored(store), subject.mark)
    differing = (key for key in before.keys() | now if before.get(key) != now.get(key))
    return {key.replace(subject.mark, "*") for key in differing}


def _kill_amid(
    master: Master, store: Store, subject: Subject, before: Mapping[str, object], amount: int
) -> None:
    """Ask for the change, and kill the master as soon as that many keys are changed."""

    def far_enough() -> bool:
        master.resume()
        time.sleep(STEP)
        master.pause()
        return len(_changed(store, before, subject)) >= amount

    client = Client(master, subject, 0)
    client.start()
    try:
        eventually(far_enough, f"{amount} keys of {subject.mark} are changed")
    finally:
        master.kill()
        client.join()


def _await(store: Store, subject: Subject, before: Mapping[str, object], whole: set[str]) -> None:
    """Wait until a change is carried out."""
    eventually(lambda: _changed(store, before, subject) == whole, f"{subject.mark} is finished")
