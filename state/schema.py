"""The schema version of the store: which of them this release reads and writes (pure).

The version is under one key, `core.keys.SCHEMA`. A store without it is empty or was written by the
original, and counts as version 1. The leader raises the version once every master and every host
reads the new one (`netmaster.migration`, ADR 24). While a backup is loaded the stamp is marked, and
no netmaster leads; while records are converted it is marked too, and the next leader goes on.
"""

import json
from dataclasses import dataclass
from typing import Final

from core import keys
from core.errors import Invalid, SchemaMismatch
from core.outside_json import read_json

VERSION: Final = 2
"""The newest version that this release reads. Raise it with any change that an older netmaster or
agent would misread, and add a migration (`netmaster.plan.migrations`)."""

OLDEST: Final = 1
"""The oldest version that this release reads, and on which its masters can lead."""

LINEAGE_SINCE: Final = 2
"""The version from which on the store has a lineage; masters of 0.1.0 cannot read it."""

IPV6_ALONE_SINCE: Final = 2
"""The version from which on networks may have IPv6 alone, which daemons of 0.1.0 cannot read."""


@dataclass(frozen=True, slots=True)
class SchemaStamp:
    """The value of the key; `loading` while a backup is loaded only in part.

    While records are converted `came_from` is the version that some of them still have.
    """

    version: int
    loading: bool = False
    came_from: int | None = None


CURRENT: Final = SchemaStamp(VERSION)


def encode(stamp: SchemaStamp) -> bytes:
    """Return the bytes of a stamp."""
    loading = {"loading": True} if stamp.loading else {}
    converting = {} if stamp.came_from is None else {"from": stamp.came_from}
    return json.dumps({"version": stamp.version} | loading | converting).encode()


def decode(value: bytes) -> SchemaStamp:
    """Decode a stamp. Raises Invalid."""
    try:
        fields = read_json(value)
        version, loading = fields["version"], fields.get("loading", False)
        came_from = fields.get("from")
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Invalid(f"key {keys.SCHEMA}: not a schema version: {value[:80]!r}") from exc
    if type(version) is not int or type(loading) is not bool or type(came_from or 0) is not int:
        raise Invalid(f"key {keys.SCHEMA}: not a schema version: {value[:80]!r}")
    return SchemaStamp(version, loading, came_from)


def check(value: bytes | None) -> None:
    """Raise SchemaMismatch, with the remedy, unless a netmaster may lead on this store."""
    if value is None:
        return
    check_version(value)
    if decode(value).loading:
        raise SchemaMismatch(
            "a backup was loaded only in part: run `netmaster load --replace` with it again, "
            "or `netmaster import --replace` if that was cut off"
        )


def check_version(value: bytes) -> None:
    """Raise SchemaMismatch, with the remedy, for a version that this release does not read."""
    stamp = decode(value)
    if stamp.version > VERSION:
        raise SchemaMismatch(
            f"the store has schema version {stamp.version}, this release reads {_KNOWN}: run the "
            "newer release that wrote the store, or restore a backup from before its upgrade"
        )
    if stamp.version < OLDEST:
        raise SchemaMismatch(
            f"the store has schema version {stamp.version}, this release reads {_KNOWN}: "
            "run an older release, which converts the store, before this one"
        )


def reads(version: int) -> bool:
    """Return whether this release reads a schema version."""
    return OLDEST <= version <= VERSION


_KNOWN: Final = f"{OLDEST} to {VERSION}"
