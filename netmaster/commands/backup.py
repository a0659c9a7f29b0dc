"""Backup and restore of what the leader owns (intents, records, grants), as one JSON text.

`dump` reads a store at one revision, `load` writes a backup to a store. Host records, registrations
and reports are not part of it: their owners write them again. Nor is the lineage: a store that was
loaded has another history than the one that was dumped (`state.lineage`).
`netmaster.commands.dispatch` is the command line of both.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from core import keys
from core.errors import Conflict, Invalid, SchemaMismatch, StoreUnavailable
from core.outside_json import read_json
from core.patience import patient
from core.version import VERSION
from netmaster import codec
from netmaster.view import View
from objdb.api import Backend, Change, Delete, Fence, Lock, Put, split
from state import lineage, schema
from state.lineage import Lineage, Term

OF_THE_STORE: Final = frozenset({keys.SCHEMA, keys.LINEAGE})
"""What describes a store and not what a leader keeps in it; no backup has it."""

Check = Callable[[Mapping[str, bytes]], bool]
"""Judges the leader's part of a store before it is replaced (`write`)."""

LOCK_TTL: Final = patient(5.0)
LOCK_PATIENCE: Final = patient(2.0)
"""Seconds to wait for a lock that was taken after it was found free."""


async def dump(backend: Backend) -> str:
    """Return the backup of a store, which may be in use. Raises SchemaMismatch, StoreUnavailable.

    Raises Invalid for a store that no netmaster of this project has led.
    """
    values = await stored(backend)
    schema.check(values.get(keys.SCHEMA))
    if keys.SCHEMA not in values:
        raise Invalid("the store is empty or has never been led by this release: nothing to dump")
    stamp = schema.decode(values[keys.SCHEMA])
    if stamp.came_from is not None:
        raise SchemaMismatch(
            f"the store is being converted from schema version {stamp.came_from} to "
            f"{stamp.version}: have a netmaster lead, which ends that, and dump again"
        )
    for key in OF_THE_STORE:
        values.pop(key, None)
    return written(values, stamp.version)


async def load(backend: Backend, text: str, *, replace: bool) -> int:
    """Replace the leader's part of a store by a backup; return the number of its keys.

    Raises Conflict while a master leads, or for a store that is not empty unless `replace`;
    SchemaMismatch or Invalid for a backup that this release cannot use. The store gets the schema
    version of the backup; the next leader raises it, as that of any older store.
    """
    version, values = read(text)

    def check(before: Mapping[str, bytes]) -> bool:
        if before and not replace:
            raise Conflict(
                f"the store holds {len(before)} keys of netmaster's: --replace deletes them"
            )
        return True

    await write(backend, "netmaster load", values, check, version=version)
    return len(values)


async def write(
    backend: Backend,
    who: str,
    values: Mapping[str, bytes],
    check: Check,
    *,
    version: int = schema.VERSION,
) -> None:
    """Replace the leader's part of a store by `values`, as a leader called `who` would.

    They are of a schema version. `check` is given what the store holds of it, and raises Conflict
    to keep it. Raises Conflict while a master leads.
    """
    lock = backend.lock(keys.LEADER_LOCK, who, LOCK_TTL)
    fence = await _locked(lock)
    try:
        await _write(backend, fence, values, check, version)
    finally:
        await lock.release()


def written(values: Mapping[str, bytes], version: int = schema.VERSION) -> str:
    """Return the backup of keys and values of a schema version."""
    backup = {
        "schema": version,
        "release": VERSION,
        "keys": {key: values[key].decode() for key in sorted(values)},
    }
    return json.dumps(backup, indent=1) + "\n"


def read(text: str) -> tuple[int, dict[str, bytes]]:
    """Return the schema version of a backup, and its keys and values.

    A view is loaded from them, as a leader would. Raises SchemaMismatch and Invalid.
    """
    try:
        backup = read_json(text)
        version, found = backup["schema"], backup["keys"]
        values = {str(key): value.encode() for key, value in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Invalid("this is not a backup that `netmaster dump` wrote") from exc
    if type(version) is not int or not schema.reads(version):
        raise SchemaMismatch(
            f"the backup has schema version {version}, this netmaster reads {schema.OLDEST} to "
            f"{schema.VERSION}: load it with the release that wrote it, "
            f"{backup.get('release', 'unknown')}"
        )
    strange = next((key for key in values if key in OF_THE_STORE or not codec.is_leaders(key)), "")
    if strange:
        raise Invalid(f"the backup holds {strange}, which is not a key of the leader's")
    View.load(values)
    return version, values


async def _locked(lock: Lock) -> Fence:
    holder = await lock.holder()
    if holder is None:
        try:
            async with asyncio.timeout(LOCK_PATIENCE):
                return await lock.acquire()
        except TimeoutError:
            await lock.release()
            holder = await lock.holder()
    if holder is None:
        raise StoreUnavailable("the leader lock cannot be taken, try again")
    raise Conflict(f"{holder} leads: stop every netmaster before a backup is loaded")


async def _write(
    backend: Backend, fence: Fence, values: Mapping[str, bytes], check: Check, version: int
) -> None:
    before = await stored(backend)
    has_agents = check(before)
    # The load takes many transactions and may be cut off. The stamp is marked first and the mark
    # removed last, so that no master leads on half a backup, and a second load can finish it. The
    # lock's fence keeps a master from writing in between.
    for key in OF_THE_STORE:
        before.pop(key, None)
    # With the stamp: whoever sees a part of the backup sees that the history is another one.
    begun = Lineage((Term(secrets.token_hex(8), 0, loaded=has_agents),))
    history = (
        _put(keys.LINEAGE, lineage.encode(begun))
        if version >= schema.LINEAGE_SINCE
        else Change((), (Delete(keys.LINEAGE),))
    )
    loading = schema.SchemaStamp(version, loading=True)
    await backend.commit([_stamp(loading), history], fence=fence)
    for group in split(_differences(before, values), backend.limits):
        await backend.commit(group, fence=fence)
    await backend.commit([_stamp(schema.SchemaStamp(version))], fence=fence)


def _differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Change]:
    for key in before.keys() - after.keys():
        yield Change((), (Delete(key),))
    for key, value in after.items():
        if before.get(key) != value:
            yield _put(key, value)


def _stamp(stamp: schema.SchemaStamp) -> Change:
    return _put(keys.SCHEMA, schema.encode(stamp))


def _put(key: str, value: bytes) -> Change:
    return Change((), (Put(key, value),))


async def stored(backend: Backend) -> dict[str, bytes]:
    """Return the leader's part of a store."""
    snapshot = await backend.snapshot(keys.ROOT)
    return {key: entry.value for key, entry in snapshot.entries.items() if codec.is_leaders(key)}
