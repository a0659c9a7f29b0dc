"""Which migrations are due, and what they write."""

import json
from collections.abc import Mapping

import pytest

from core import keys
from netmaster.plan.migrations import (
    MIGRATIONS,
    Conversion,
    Migration,
    converted,
    due,
    unchanged,
    version_of,
)
from state import schema
from state.schema import SchemaStamp

THREE = (Migration(2), Migration(3), Migration(4))


def upper(key: str, value: bytes) -> Mapping[str, bytes]:
    """Convert values to upper case, and one key to another."""
    return {key.replace("/old/", "/new/"): value.upper()}


@pytest.mark.parametrize(
    ("stamp", "target", "steps"),
    [
        (None, 1, []),
        (None, 4, [2, 3, 4]),
        (SchemaStamp(1), 3, [2, 3]),
        (SchemaStamp(3), 4, [4]),
        (SchemaStamp(4), 4, []),
        (SchemaStamp(4), 2, []),
        (SchemaStamp(3, came_from=2), 4, [3, 4]),
        (SchemaStamp(3, came_from=2), 1, [3]),
    ],
)
def test_migrations_are_run_in_order_up_to_the_target(
    stamp: SchemaStamp | None, target: int, steps: list[int]
) -> None:
    assert [one.to for one in due(stamp, target, THREE)] == steps


def test_a_store_without_a_stamp_is_the_oldest() -> None:
    assert version_of(None) == schema.OLDEST == 1


def test_there_is_a_migration_to_each_version_this_release_can_raise() -> None:
    assert [one.to for one in MIGRATIONS] == list(range(schema.OLDEST + 1, schema.VERSION + 1))


def test_only_what_differs_is_written_each_record_in_one_change() -> None:
    old, done = keys.ROOT + "state/old/a", keys.ROOT + "state/new/b"
    moved = keys.ROOT + "state/new/a"
    assert list(converted({old: b"x", done: b"Y"}, upper)) == [Conversion(old, {moved: b"X"})]


def test_what_is_not_the_leaders_and_what_describes_the_store_stays() -> None:
    others = [keys.HOSTS + "h", keys.LEADER_LOCK, keys.SCHEMA, keys.LINEAGE, keys.COMMITS + "w"]
    assert not list(converted(dict.fromkeys(others, b"x"), upper))


def test_a_version_that_adds_only_fields_writes_no_record() -> None:
    values = {keys.NETWORKS + "n.t": json.dumps({"id": "n.t"}).encode()}
    assert not list(converted(values, unchanged))
