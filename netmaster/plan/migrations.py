"""The migrations of the store's schema, and what each of their steps writes (ADR 24). Pure.

A migration converts the leader's records from the version before to its own. `netmaster.migration`
performs it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from core import keys
from netmaster import codec
from state import schema
from state.schema import SchemaStamp

Convert = Callable[[str, bytes], Mapping[str, bytes]]
"""Key and value of one record -> the keys and values that take its place.

A record that is converted already must be returned as it is: a migration that was cut off is run
again over all records. Only the key's own record is known, since the others may be converted or
not.
"""


def unchanged(key: str, value: bytes) -> Mapping[str, bytes]:
    """Return a record as it is: for versions that only add fields or keys."""
    return {key: value}


@dataclass(frozen=True, slots=True)
class Migration:
    """The conversion of a store of version `to - 1` into one of version `to`."""

    to: int
    convert: Convert = unchanged


@dataclass(frozen=True, slots=True)
class Conversion:
    """What takes the place of one record: it is written, and the record deleted, in one change."""

    key: str
    wanted: Mapping[str, bytes]


MIGRATIONS: Final = (Migration(schema.LINEAGE_SINCE),)
"""All migrations, oldest first.

Version 2 adds a key, the store's lineage, and optional fields; it converts nothing.
"""


def due(
    stamp: SchemaStamp | None, target: int, migrations: tuple[Migration, ...] = MIGRATIONS
) -> list[Migration]:
    """Return the migrations that bring a store to the target version, oldest first.

    One that was begun comes first, whatever the target is: only its end makes the store readable.
    """
    now = version_of(stamp)
    begun = None if stamp is None else stamp.came_from
    if begun is not None:
        target, now = max(target, now), begun
    return [one for one in migrations if now < one.to <= target]


def version_of(stamp: SchemaStamp | None) -> int:
    """Return the version of a store; one without a stamp is empty or the original's."""
    return schema.OLDEST if stamp is None else stamp.version


def converted(values: Mapping[str, bytes], convert: Convert) -> Iterator[Conversion]:
    """Return the conversions of the leader's records that differ from what is stored."""
    for key, value in values.items():
        if key in _OF_THE_STORE or not codec.is_leaders(key):
            continue
        wanted = convert(key, value)
        if wanted != {key: value}:
            yield Conversion(key, wanted)


_OF_THE_STORE: Final = frozenset({keys.SCHEMA, keys.LINEAGE})
