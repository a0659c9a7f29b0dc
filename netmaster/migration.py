"""Brings the store to the newest schema version that the whole cluster reads (ADR 24).

A new leader runs `migrate` before it reads its view; `netmaster.plan.migrations` says what is
written. While some master or host does not read the newest version yet, the leader leads on the
older one, and `until_all_read_newest` returns when it may begin its term anew.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from core import keys
from core.errors import FenceLost, NotLeader, StoreFull, StoreUnavailable
from core.logs import fields
from core.retry import REMOTE, Loop, retry
from netmaster.hosts import host_inventory
from netmaster.plan.migrations import (
    MIGRATIONS,
    Conversion,
    Migration,
    converted,
    due,
    version_of,
)
from objdb.api import Backend, Change, Delete, Fence, Put, Refused, Unchanged, split
from state import codec, schema
from state.schema import SchemaStamp

log = logging.getLogger(__name__)

# Why waiting is for availability only: an older master or agent that nobody waited for finds the
# newer version when it starts, a master also when it begins a term, and refuses. It cannot misread
# a record. The stamp of the newer version is written before the first record is converted, so that
# holds in the middle of a migration, too.


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The newest schema version that each master and each host reads, by name."""

    versions: dict[str, int] = field(default_factory=dict)

    def behind(self, version: int) -> list[str]:
        """Return who does not read a version, ordered."""
        return sorted(name for name, newest in self.versions.items() if newest < version)

    def newest(self) -> int:
        """Return the newest version that all of them and this release read."""
        return min([schema.VERSION, *self.versions.values()])


async def readers(backend: Backend) -> Readers:
    """Return the registered masters and all hosts that have a record.

    A host counts until it is removed, with its agent running or not: it comes back with the release
    it had. Raises StoreUnavailable, and Invalid for a master's registration that cannot be read.
    """
    masters = await backend.snapshot(keys.services(keys.SERVICE_NETMASTER))
    hosts = await backend.snapshot(keys.HOSTS)
    found = {
        f"master {key.rpartition('/')[2]}": codec.decode_service(key, entry.value).schema
        for key, entry in masters.entries.items()
    }
    # An agent can write anything into its host's record. One that says nothing, or nonsense, keeps
    # the cluster at the oldest version, and no master from leading.
    found |= {f"host {keys.after(keys.HOSTS, key)}": schema.OLDEST for key in hosts.entries}
    found |= {
        f"host {one.label}": max(one.schema, schema.OLDEST)
        for one in host_inventory.readable_records(hosts.entries.values())
    }
    return Readers(versions=found)


async def migrate(
    backend: Backend,
    fence: Fence,
    writer: str,
    migrations: tuple[Migration, ...] = MIGRATIONS,
) -> int:
    """Bring the store to the newest version that all read, and stamp it; return the version.

    Takes as long as the store does, and may be cut off at any point: the next leader goes on.
    Raises SchemaMismatch for a store that this release cannot read, NotLeader once another master
    leads, Invalid, StoreDenied and StoreFull.
    """
    loop = Loop(log, "schema not checked", errors=StoreUnavailable, ends=StoreFull, patience=REMOTE)
    try:
        return await retry(loop, lambda: _migrate(backend, fence, writer, migrations))
    except FenceLost as exc:
        raise NotLeader("the lock was lost while the schema was raised") from exc


async def _migrate(
    backend: Backend, fence: Fence, writer: str, migrations: tuple[Migration, ...]
) -> int:
    entry = await backend.get(keys.SCHEMA)
    schema.check(entry.value if entry else None)
    stamp = schema.decode(entry.value) if entry else None
    known = await readers(backend)
    steps = due(stamp, known.newest(), migrations)
    for step in steps:
        await _convert(backend, fence, writer, step)
    version = steps[-1].to if steps else version_of(stamp)
    if stamp is None and not steps:
        await _commit(backend, fence, writer, [_stamped(SchemaStamp(version))])
    if version < schema.VERSION:
        log.info(
            "schema kept for older releases",
            extra=fields(version=version, reason=", ".join(known.behind(schema.VERSION))),
        )
    return version


async def until_all_read_newest(backend: Backend, interval: float) -> None:
    """Return when every master and host reads the newest version; look every so many seconds."""
    loop = Loop(log, "schema readers not readable", patience=REMOTE)
    found = await retry(loop, partial(readers, backend))
    while found.newest() != schema.VERSION:
        await asyncio.sleep(interval)
        found = await retry(loop, partial(readers, backend))


async def _convert(backend: Backend, fence: Fence, writer: str, step: Migration) -> None:
    begun = SchemaStamp(step.to, came_from=step.to - 1)
    await _commit(backend, fence, writer, [_stamped(begun)])
    found = await backend.snapshot(keys.ROOT)
    values = {key: entry.value for key, entry in found.entries.items()}
    changes = [_change(one, found.entries[one.key].rev) for one in converted(values, step.convert)]
    for group in split(changes, backend.limits):
        await _commit(backend, fence, writer, group)
    await _commit(backend, fence, writer, [_stamped(SchemaStamp(step.to))])
    log.info("schema raised", extra=fields(version=step.to, count=len(changes)))


def _change(conversion: Conversion, rev: int) -> Change:
    key, wanted = conversion.key, conversion.wanted
    deletes = () if key in wanted else (Delete(key),)
    puts = (Put(new, value) for new, value in wanted.items())
    return Change((Unchanged(key, rev),), (*deletes, *puts))


def _stamped(stamp: SchemaStamp) -> Change:
    return Change((), (Put(keys.SCHEMA, schema.encode(stamp)),))


async def _commit(backend: Backend, fence: Fence, writer: str, group: Sequence[Change]) -> None:
    outcomes = await backend.commit(group, fence=fence, writer=writer)
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            raise StoreUnavailable(f"{outcome.culprit.key} was changed by another writer")
