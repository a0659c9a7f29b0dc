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

LOCK_TTL: Final = 5.0
LOCK_PATIENCE: Final = 2.0
"""Seconds to wait for a lock that was taken after it was found free."""


async def dump(backend: Backend) -> str:
    """Return the backup of a store, which may be in use. Raises SchemaMismatch, StoreUnavailable.

    Raises Invalid for a store that no netmaster of this release has led.
    """
    values = await stored(backend)
    schema.check(values.get(keys.SCHEMA))
    if keys.SCHEMA not in values:
        raise Invalid("the store is empty or has never been led by this release: nothing to dump")
    for key in OF_THE_STORE:
        values.pop(key, None)
    return written(values)


async def load(backend: Backend, text: str, *, replace: bool) -> int:
    """Replace the leader's part of a store by a backup; return the number of its keys.

    Raises Conflict while a master leads, or for a store that is not empty unless `replace`;
    SchemaMismatch or Invalid for a backup that this release cannot use.
    """
    values = read(text)

    def check(before: Mapping[str, bytes]) -> bool:
        if before and not replace:
            raise Conflict(
                f"the store holds {len(before)} keys of netmaster's: --replace gives them up"
            )
        return True

    await write(backend, "netmaster load", values, check)
    return len(values)


async def write(backend: Backend, who: str, values: Mapping[str, bytes], check: Check) -> None:
    """Replace the leader's part of a store by `values`, as a leader called `who` would.

    `check` is given what the store holds of it, and raises Conflict to keep it. Raises Conflict
    while a master leads.
    """
    lock = backend.lock(keys.LEADER_LOCK, who, LOCK_TTL)
    fence = await _locked(lock)
    try:
        await _write(backend, fence, values, check)
    finally:
        await lock.release()


def written(values: Mapping[str, bytes]) -> str:
    """Return the backup of keys and values."""
    backup = {
        "schema": schema.VERSION,
        "release": VERSION,
        "keys": {key: values[key].decode() for key in sorted(values)},
    }
    return json.dumps(backup, indent=1) + "\n"


def read(text: str) -> dict[str, bytes]:
    """Return the keys and values of a backup, after loading a view from them as a leader would."""
    try:
        backup = json.loads(text)
        version, found = backup["schema"], backup["keys"]
        values = {str(key): value.encode() for key, value in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Invalid("this is not a backup that `netmaster dump` wrote") from exc
    if version != schema.VERSION:
        raise SchemaMismatch(
            f"the backup has schema version {version}, this netmaster knows {schema.VERSION}: "
            f"load it with the release that wrote it, {backup.get('release', 'unknown')}"
        )
    strange = next((key for key in values if key in OF_THE_STORE or not codec.is_leaders(key)), "")
    if strange:
        raise Invalid(f"the backup holds {strange}, which is not a key of the leader's")
    View.load(values)
    return values


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


async def _write(backend: Backend, fence: Fence, values: Mapping[str, bytes], check: Check) -> None:
    before = await stored(backend)
    has_agents = check(before)
    # The load takes many transactions and may be cut off. The stamp LOADING comes first and CURRENT
    # last, so that no master leads on half a backup, and a second load can finish it. The lock's
    # fence keeps a master from writing in between.
    for key in OF_THE_STORE:
        before.pop(key, None)
    # With the stamp: whoever sees a part of the backup sees that the history is another one.
    begun = _put(
        keys.LINEAGE, lineage.encode(Lineage((Term(secrets.token_hex(8), 0, loaded=has_agents),)))
    )
    await backend.commit([_stamp(schema.LOADING), begun], fence=fence)
    for group in split(_differences(before, values), backend.limits):
        await backend.commit(group, fence=fence)
    await backend.commit([_stamp(schema.CURRENT)], fence=fence)


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
