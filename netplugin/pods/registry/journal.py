"""The journal: one small file for each endpoint of this host (ADR 17).

An entry is written before netmaster is asked for the endpoint, and removed when the endpoint has
been released. An agent that starts reads all entries and finishes or undoes what its predecessor
left (`netplugin.pods.handler`). The text of a file is `netplugin.pods.registry.journal_entry`'s. An
unreadable file is renamed, reported and skipped. Where there is no room for the new state of an
entry that is to be removed, the file's name alone says so.

Container ids come from outside, so a file is named by the hash of the endpoint's key; the key is
inside.
"""

import asyncio
import errno
import hashlib
import logging
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from core import logs
from core.errors import HostError
from core.ids import EndpointKey
from core.tasks import attempt
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry, parse, text_of

log = logging.getLogger(__name__)

T = TypeVar("T")
_Job = Callable[[], None]

_SUFFIX: Final = ".json"
_ASIDE: Final = ".unreadable"
_HALF: Final = ".tmp"
PROBE: Final = f"probe{_HALF}"
"""The file that tells whether an entry could be written: there for a moment now and then."""
_PROBE_SIZE: Final = 4096
"""Bytes, more than an entry has: a disk that takes fewer takes no entry."""
_REMOVING: Final = ".removing"
"""Of a file whose entry is REMOVING, whatever is written in it."""


class Journal:
    """The entries under one directory. Writes of one entry are done in the order of the calls."""

    unreadable = 0
    """The number of unreadable entries that `load` found: some endpoints are not known."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # A thread, because an fsync blocks for milliseconds; one thread, so that writes of an entry
        # keep their order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        # What makes a pod ready goes before what begins others. Of fifty pods at once the first
        # would be ready with the last otherwise: its last write behind the first of all others. No
        # two writes of one entry change places: its ADD stages after it has written, and nothing
        # else writes the entry until the ADD is over.
        self._last_steps: deque[_Job] = deque()
        self._others: deque[_Job] = deque()

    def close(self) -> None:
        """Wait until pending writes are done."""
        self._thread.shutdown()

    async def load(self) -> list[JournalEntry]:
        """Create the directory if it is missing and return all entries. Raises HostError."""
        return await self._call(self._load)

    async def write(self, entry: JournalEntry) -> None:
        """Return when the entry is on disk, in place of one with its key. Raises HostError.

        An entry that is there can become REMOVING on a full disk too. After a power failure the
        replaced entry may be back, without its pod.
        """
        await self._call(lambda: self._write(entry))

    async def stage(self, entry: JournalEntry) -> None:
        """Write an entry to disk beside the one with its key, which still holds. Raises HostError.

        `commit` puts it in place, and takes no time. Any other write of the key, and the start of
        an agent, discard it.
        """
        await self._call(lambda: self._stage(entry), self._last_steps)

    async def commit(self, key: EndpointKey) -> None:
        """Return when the staged entry is in place. Raises HostError."""
        await self._call(lambda: self._commit(key), self._last_steps)

    async def remove(self, key: EndpointKey) -> None:
        """Return when no entry with this key is on disk. Raises HostError."""
        await self._call(lambda: self._remove(key))

    async def probe(self) -> None:
        """Return if an entry could be written now. Raises HostError."""
        await self._call(self._probe)

    async def _call(self, work: Callable[[], T], among: deque[_Job] | None = None) -> T:
        done: Future[T] = Future()
        among = self._others if among is None else among
        among.append(partial(_settle, done, work))
        try:
            self._thread.submit(self._do_next)
        except RuntimeError as exc:
            raise HostError(f"journal {self._directory} is closed: the agent stops") from exc
        try:
            return await asyncio.wrap_future(done)
        except OSError as exc:
            raise HostError(f"journal {self._directory}: {exc.strerror or exc}") from exc

    def _do_next(self) -> None:
        (self._last_steps or self._others).popleft()()

    def _load(self) -> list[JournalEntry]:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        entries = []
        for path in sorted(self._directory.iterdir()):
            if path.suffix == _ASIDE:
                self.unreadable += 1
            elif path.suffix == _HALF:
                path.unlink()
            elif path.suffix in {_SUFFIX, _REMOVING}:
                entry = _read(path)
                if entry is None:
                    self.unreadable += 1
                elif path.suffix == _REMOVING:
                    entries.append(replace(entry, state=EntryState.REMOVING))
                else:
                    entries.append(entry)
        return entries

    # Names of files are text here: pathlib interns the parts of each path, and Python's table of
    # interned text doubles, by megabytes, after some 40 000 new ones. A pod's life makes nine.

    # Write beside, sync, rename: a crash leaves the old file or the new one, never half of one. The
    # directory is synced only for a new name. Replacing an entry without that sync may be undone by
    # a power failure, which also ends all pods, so the old entry is torn down anyway.

    def _write(self, entry: JournalEntry) -> None:
        try:
            self._stage(entry)
        except OSError:
            if entry.state is EntryState.REMOVING and self._mark_removing(self._stem(entry.key)):
                return
            raise
        self._commit(entry.key)

    def _stage(self, entry: JournalEntry) -> None:
        half = self._stem(entry.key) + _HALF
        try:
            self._write_half(half, entry)
        except OSError:
            _unlink(half)
            raise

    def _commit(self, key: EndpointKey) -> None:
        stem = self._stem(key)
        new = not os.path.exists(stem + _SUFFIX)
        os.replace(stem + _HALF, stem + _SUFFIX)
        if new:
            self._sync()

    def _mark_removing(self, stem: str) -> bool:
        """Give a file the name that says REMOVING; False if there is none."""
        # A DEL must work on a full disk, for it makes room. Another name for a file needs none.
        if os.path.exists(stem + _SUFFIX):
            os.replace(stem + _SUFFIX, stem + _REMOVING)
            self._sync()
        return os.path.exists(stem + _REMOVING)

    def _write_half(self, half: str, entry: JournalEntry) -> None:
        _write_synced(half, text_of(entry).encode())

    def _probe(self) -> None:
        # Its name ends as that of a half-written entry: the next agent removes one that is left.
        path = f"{self._directory}/{PROBE}"
        try:
            _write_synced(path, bytes(_PROBE_SIZE))
        finally:
            _unlink(path)

    def _remove(self, key: EndpointKey) -> None:
        stem = self._stem(key)
        _unlink(stem + _SUFFIX)
        _unlink(stem + _REMOVING)
        self._sync()

    def _stem(self, key: EndpointKey) -> str:
        """Return the path of a key's files without their suffix."""
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self._directory}/{name[:40]}"

    def _sync(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    """Do a job, unless its caller is gone."""
    if done.set_running_or_notify_cancel():
        attempt(lambda: done.set_result(work()), done.set_exception)


def _write_synced(path: str, content: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        if file.write(content) != len(content):  # a disk that is almost full takes a part
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _read(path: Path) -> JournalEntry | None:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except ValueError as exc:
        aside = path.with_suffix(_ASIDE)
        path.replace(aside)
        log.error(  # noqa: TRY400 - the fault is in the file, not in the code
            "journal entry unreadable, renamed", extra=logs.fields(path=aside, error=exc)
        )
        return None
