"""What the Kubernetes API server said last, on this host's disk: a database of SQLite.

`netplugin.kube.feed` saves the objects of a resource as they change, and starts from them: an agent
that starts while the server is away knows no less than the agent before it. A database that cannot
be read, or is of another format, counts as absent.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from core.errors import HostError
from core.logs import fields
from netplugin.world.kubernetes.kube_objects import KubeObject

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

FORMAT: Final = 1
LARGEST: Final = 1024 * 1024 * 1024
"""Bytes of the database; a cluster with more is not cached."""

FILE: Final = "objects.sqlite"

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS resources (name TEXT PRIMARY KEY, version TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, line BLOB NOT NULL, PRIMARY KEY (resource, key)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Cached:
    """The objects of a resource as they were at a version of the server's."""

    version: str
    objects: tuple[KubeObject, ...]


class KubeCache:
    """The database in one directory. Its methods block: one call at a time, from any thread."""

    # A policy that is in force must be in the file before the agent can be killed: each save is a
    # commit, and waits for no disk. A killed process loses nothing that it wrote. After a power
    # failure the write-ahead log ends at its last whole commit, half a minute old at most: by then
    # the kernel has written it.

    def __init__(self, directory: Path, largest: int = LARGEST) -> None:
        self._directory = directory
        self._largest = largest
        self._connection: sqlite3.Connection | None = None

    def load(self, name: str) -> Cached | None:
        """Return the objects of a resource, None if nothing usable is there."""
        try:
            return self._with(lambda connection: _load(connection, name))
        except HostError as exc:
            log.warning(
                "Kubernetes cache not usable, asking the API server", extra=fields(error=exc)
            )
            return None

    def save(self, name: str, version: str, changes: Mapping[str, bytes | None]) -> None:
        """Record the version that a resource has reached and what changed since the last save.

        `changes` has objects by key, each as a line of JSON; None for one that is gone. Raises
        HostError; the cache is empty then, and everything must be saved anew.
        """
        self._with(lambda connection: _save(connection, name, version, changes))

    def remove(self, name: str) -> None:
        """Forget a resource. Raises HostError."""
        self._with(lambda connection: _remove(connection, name))

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _with(self, action: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Run an action as one transaction. Raises HostError, and the cache is empty then."""
        try:
            if self._connection is None:
                self._connection = self._open()
            with self._connection as connection:
                return action(connection)
        except (OSError, sqlite3.Error, ValueError, TypeError, RecursionError) as exc:
            # What lacks a change must not be begun with: it would claim that the server still says
            # what it said before.
            self._discard()
            raise HostError(f"Kubernetes cache {self._directory / FILE}: {exc}") from exc

    def _open(self) -> sqlite3.Connection:
        path = self._directory / FILE
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        connection = sqlite3.connect(path, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA max_page_count = {self._largest // size}")
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        with suppress(sqlite3.Error):
            self.close()
        self._connection = None
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                (self._directory / f"{FILE}{suffix}").unlink()


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables if they are absent. Raises sqlite3.Error or ValueError."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, FORMAT):
        raise ValueError(f"format {version} instead of {FORMAT}")
    connection.executescript(_TABLES)
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _load(connection: sqlite3.Connection, name: str) -> Cached | None:
    """Return the objects of a resource. Raises sqlite3.Error, ValueError or TypeError."""
    row = connection.execute("SELECT version FROM resources WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    lines = connection.execute("SELECT line FROM objects WHERE resource = ?", (name,))
    with closing(lines):
        objects = tuple(json.loads(line) for (line,) in lines)
    if not all(isinstance(one, dict) for one in objects):
        raise TypeError("not objects of Kubernetes")
    return Cached(row[0], objects)


def _save(
    connection: sqlite3.Connection, name: str, version: str, changes: Mapping[str, bytes | None]
) -> None:
    put = [(name, key, line) for key, line in changes.items() if line is not None]
    gone = [(name, key) for key, line in changes.items() if line is None]
    connection.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", put)
    connection.executemany("DELETE FROM objects WHERE resource = ? AND key = ?", gone)
    connection.execute("INSERT OR REPLACE INTO resources VALUES (?, ?)", (name, version))


def _remove(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM objects WHERE resource = ?", (name,))
    connection.execute("DELETE FROM resources WHERE name = ?", (name,))
