"""The schema version of the store that this release reads and writes (pure).

The version is under one key, `core.keys.SCHEMA`. A store without it is empty or was written by the
original, which this release can read; the first leader writes the version
(`netmaster.plan.schema`). While a backup is loaded the stamp is marked, and no netmaster leads.
"""

import json
from dataclasses import dataclass
from typing import Final

from core import keys
from core.errors import Invalid, SchemaMismatch

VERSION: Final = 1
"""Raise it with any change that an older netmaster would misread."""


@dataclass(frozen=True, slots=True)
class SchemaStamp:
    """The value of the key; `loading` while a backup is loaded only in part."""

    version: int
    loading: bool = False


CURRENT: Final = SchemaStamp(VERSION)
LOADING: Final = SchemaStamp(VERSION, loading=True)


def encode(stamp: SchemaStamp) -> bytes:
    """Return the bytes of a stamp."""
    loading = {"loading": True} if stamp.loading else {}
    return json.dumps({"version": stamp.version} | loading).encode()


def decode(value: bytes) -> SchemaStamp:
    """Decode a stamp. Raises Invalid."""
    try:
        fields = json.loads(value)
        version, loading = fields["version"], fields.get("loading", False)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Invalid(f"key {keys.SCHEMA}: not a schema version: {value[:80]!r}") from exc
    if type(version) is not int or type(loading) is not bool:
        raise Invalid(f"key {keys.SCHEMA}: not a schema version: {value[:80]!r}")
    return SchemaStamp(version, loading)


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
    """Raise SchemaMismatch, with the remedy, for another version than this release's."""
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
