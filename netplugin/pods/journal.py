"""What this host must not forget: one small file per local endpoint (ADR 17).

In come entries, before netmaster is asked for the endpoint; they go when it has been released. An
agent that starts reads all of them and knows what it may have left half done
(`netplugin.pods.handler`). A file is whole or absent: it is written beside its place, synced and
renamed. One that cannot be read is put aside and reported, and stops nobody.

Container ids come from outside, so a file is named by the hash of the endpoint's key; the key is
inside.
"""

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from core import logs
from core.errors import HostError
from core.ids import EndpointKey, GroupName, NetworkName, TenantName

log = logging.getLogger(__name__)

T = TypeVar("T")

_SUFFIX: Final = ".json"
_ASIDE: Final = ".unreadable"
_HALF: Final = ".tmp"
_KINDS: Final[dict[str, type | tuple[type, ...]]] = {"port": int, "group": (str, type(None))}
"""Members of a file that are not simply text."""


class EntryState(StrEnum):
    """How far an endpoint has come; what an agent that finds it has to do depends on it."""

    ADDING = "adding"
    PRESENT = "present"
    REMOVING = "removing"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A local endpoint as its host knows it."""

    key: EndpointKey
    container_id: str
    netns: str
    ifname: str
    tenant: TenantName
    network: NetworkName
    group: GroupName | None
    port: int
    bridge: str
    state: EntryState


class Journal:
    """The entries under one directory. Writes of one entry are done in the order they are made."""

    unreadable = 0
    """How many entries `load` has found that cannot be read: not all is known of this host."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # an fsync costs milliseconds on a disk; one thread keeps the order
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")

    def close(self) -> None:
        """Finish what is being written."""
        self._thread.shutdown()

    async def load(self) -> list[JournalEntry]:
        """Make the directory if need be and return all entries. Raises HostError."""
        return await self._call(self._load)

    async def write(self, entry: JournalEntry) -> None:
        """Return when the entry is on the disk, in place of one with its key. Raises HostError.

        After a loss of power the one replaced may be back, and no pod to go with it.
        """
        await self._call(lambda: self._write(entry))

    async def remove(self, key: EndpointKey) -> None:
        """Return when the entry is gone from the disk; none is fine. Raises HostError."""
        await self._call(lambda: self._remove(key))

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as exc:
            raise HostError(f"journal {self._directory} is closed: the agent stops") from exc
        try:
            return await done
        except OSError as exc:
            raise HostError(f"journal {self._directory}: {exc.strerror or exc}") from exc

    def _load(self) -> list[JournalEntry]:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        entries = []
        for path in sorted(self._directory.iterdir()):
            if path.suffix == _ASIDE:
                self.unreadable += 1
            elif path.suffix == _HALF:
                path.unlink()
            elif path.suffix == _SUFFIX:
                entry = _read(path)
                if entry is None:
                    self.unreadable += 1
                else:
                    entries.append(entry)
        return entries

    def _write(self, entry: JournalEntry) -> None:
        path = self._path(entry.key)
        half, new = path.with_suffix(_HALF), not path.exists()
        with half.open("wb", buffering=0) as file:
            file.write(json.dumps(asdict(entry)).encode())
            os.fsync(file.fileno())
        half.replace(path)
        if new:
            self._sync()

    def _remove(self, key: EndpointKey) -> None:
        self._path(key).unlink(missing_ok=True)
        self._sync()

    def _path(self, key: EndpointKey) -> Path:
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        return self._directory / f"{name[:40]}{_SUFFIX}"

    def _sync(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def parse(text: str) -> JournalEntry:
    """Return the entry in a file's text. Raises ValueError for anything else."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - it is the text that is wrong
    known = {field.name for field in fields(JournalEntry)}
    missing = known - value.keys()
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))} missing")
    wrong = [n for n in known if not isinstance(value[n], _KINDS.get(n, str))]
    if wrong:
        raise ValueError(f"{', '.join(sorted(wrong))} of the wrong type")
    # a newer agent may have written more than this one knows
    return JournalEntry(
        **{name: value[name] for name in known - {"state"}}, state=EntryState(value["state"])
    )


def _read(path: Path) -> JournalEntry | None:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except ValueError as exc:
        aside = path.with_suffix(_ASIDE)
        path.replace(aside)
        log.error(  # noqa: TRY400 - what is wrong with the file is no failure of the code
            "journal entry cannot be read, put aside", extra=logs.fields(path=aside, error=exc)
        )
        return None
