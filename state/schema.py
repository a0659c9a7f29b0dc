"""Which layout of the store this release reads and writes, and what to do about another one.

The version stands under one key, `core.keys.SCHEMA`. A store without it is empty or as the
original leaves it, which can be read; the first leader stamps it (`netmaster.plan.schema`). While
a backup is loaded the stamp says so, and nobody leads on half a store. Pure.
"""

import json
from dataclasses import dataclass
from typing import Final

from core import keys
from core.errors import Invalid, SchemaMismatch

VERSION: Final = 1
"""To be raised by any change that an older netmaster would read wrongly."""


@dataclass(frozen=True, slots=True)
class SchemaStamp:
    """What the key holds; `loading` while a backup is only half there."""

    version: int
    loading: bool = False


CURRENT: Final = SchemaStamp(VERSION)
LOADING: Final = SchemaStamp(VERSION, loading=True)


def encode(stamp: SchemaStamp) -> bytes:
    """Return the bytes of a stamp."""
    loading = {"loading": True} if stamp.loading else {}
    return json.dumps({"version": stamp.version} | loading).encode()


def decode(value: bytes) -> SchemaStamp:
    """Return the stamp; Invalid if it cannot be read."""
    try:
        fields = json.loads(value)
        version, loading = fields["version"], fields.get("loading", False)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Invalid(f"key {keys.SCHEMA}: not a schema version: {value[:80]!r}") from exc
    if type(version) is not int or type(loading) is not bool:
        raise Invalid(f"key {keys.SCHEMA}: not a schema version: {value[:80]!r}")
    return SchemaStamp(version, loading)


def check(value: bytes | None) -> None:
    """Raise SchemaMismatch, saying what to do, unless a store with this stamp can be led."""
    if value is None:
        return
    check_version(value)
    if decode(value).loading:
        raise SchemaMismatch(
            "a backup was loaded only in part: run `netmaster load --replace` with it again"
        )


def check_version(value: bytes) -> None:
    """Raise SchemaMismatch, saying what to do, for a layout this release does not read."""
    stamp = decode(value)
    if stamp.version > VERSION:
        raise SchemaMismatch(
            f"the store has schema version {stamp.version}, this release knows {VERSION}: "
            "run the newer release that wrote the store"
        )
    if stamp.version < VERSION:
        raise SchemaMismatch(
            f"the store has schema version {stamp.version}, this release needs {VERSION}: "
            "run the older release, or start anew with an empty store"
        )
