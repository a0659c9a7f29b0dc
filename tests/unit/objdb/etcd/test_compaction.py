"""What the stored checkpoint makes a leader do, whatever the clocks of its predecessors."""

import json

import pytest

from objdb.etcd.compaction import Checkpoint, CompactionStep, decode, encode, next_step

PERIOD = 600.0
STORED = Checkpoint(revision=40, time=1_000.0)


def step(now: float, stored: Checkpoint | None = STORED, revision: int = 90) -> CompactionStep:
    return next_step(stored, Checkpoint(revision, now), PERIOD)


def test_the_first_leader_notes_where_the_store_is() -> None:
    assert step(1_000.0, None) == CompactionStep(store=Checkpoint(90, 1_000.0))


def test_another_leader_waits_for_the_rest_of_the_period() -> None:
    assert step(1_450.0) == CompactionStep(wait=150.0)


@pytest.mark.parametrize("now", [1_600.0, 9_999.0])
def test_a_revision_that_is_a_period_old_is_compacted(now: float) -> None:
    assert step(now) == CompactionStep(compact=40, store=Checkpoint(90, now))


def test_a_time_to_come_is_replaced_and_the_revision_kept() -> None:
    corrected = step(400.0)
    assert corrected == CompactionStep(store=Checkpoint(40, 400.0))
    assert step(1_000.0, corrected.store).compact == 40


def test_a_revision_to_come_is_of_another_history() -> None:
    assert step(9_999.0, revision=39) == CompactionStep(store=Checkpoint(39, 9_999.0))


@pytest.mark.parametrize("clocks", [(0.0, 0.0), (0.0, 5_000.0), (-5_000.0, 0.0, 7.0), (3_600.0,)])
def test_leaders_whose_clocks_differ_compact(clocks: tuple[float, ...]) -> None:
    """Have leaders take turns of a third of the period, after one with a clock far ahead."""
    stored: Checkpoint | None = Checkpoint(1, 1e9)
    compacted = set()
    for turn in range(30):
        real = 100_000.0 + turn * PERIOD / 3
        while (due := step(real + clocks[turn % len(clocks)], stored, turn + 10)).store:
            compacted.add(due.compact)
            stored = due.store
    assert len(compacted - {None}) >= 8


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"12", b"[]", b"{}", b"null", b"\xff", b'{"revision": 0, "time": 1}'),
        *(b'{"revision": "x", "time": 1}', b'{"revision": 1, "time": NaN}'),
        *(b'{"revision": 1e999, "time": 1}', b'{"revision": 1, "time": Infinity}'),
    ],
)
def test_what_is_no_checkpoint_counts_as_none(value: bytes) -> None:
    assert decode(value) is None


def test_the_stored_form() -> None:
    assert json.loads(encode(STORED)) == {"revision": 40, "time": 1_000.0}
    assert decode(encode(STORED)) == STORED
