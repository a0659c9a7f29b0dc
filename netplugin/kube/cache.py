"""What the Kubernetes API server said last, on this host's disk: one file for each resource.

`netplugin.kube.feed` saves the objects of a resource after changes, and starts from them: an agent
that starts while the server is away knows no less than the agent before it. A file is replaced as a
whole; one that cannot be read, or is of another format, counts as absent. It has a line of JSON for
the format and the version reached, and one for each object.
"""

import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import HostError
from core.logs import fields
from netplugin.world.kube_objects import KubeObject

log = logging.getLogger(__name__)

FORMAT: Final = 1
LARGEST: Final = 256 * 1024 * 1024
"""Bytes of one file; a cluster with more in one resource is not cached."""

_SUFFIX: Final = ".jsonl"
_HALF: Final = ".tmp"


@dataclass(frozen=True, slots=True)
class Cached:
    """The objects of a resource as they were at a version of the server's."""

    version: str
    objects: tuple[KubeObject, ...]


class KubeCache:
    """The files in one directory. Its methods block: `save` is to be called from a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, name: str) -> Cached | None:
        """Return the objects of a resource, None if nothing usable is there."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                head, *lines = (json.loads(line) for line in file)
            return _cached(head, lines)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as exc:
            log.warning(
                "Kubernetes cache not usable, asking the API server",
                extra=fields(path=path, error=exc),
            )
            return None

    def save(self, name: str, version: str, lines: Iterable[bytes]) -> None:
        """Replace the objects of a resource, each a line of JSON. Raises HostError."""
        # Write beside, sync, rename: a crash leaves the old file or the new one, never half of one.
        path = self._path(name)
        half = path.with_suffix(_HALF)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            size = self._write(half, version, lines)
            if size > LARGEST:
                # An old file would claim that the server still says what it said then.
                half.unlink()
                path.unlink(missing_ok=True)
                raise HostError(f"Kubernetes cache {path}: {size} bytes are too many")
            half.replace(path)
        except OSError as exc:
            raise HostError(f"Kubernetes cache {path}: {exc.strerror or exc}") from exc

    def remove(self, name: str) -> None:
        """Forget a resource. Raises HostError."""
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            raise HostError(f"Kubernetes cache {path}: {exc.strerror or exc}") from exc

    @staticmethod
    def _write(path: Path, version: str, lines: Iterable[bytes]) -> int:
        """Write the lines up to the limit; return the size reached."""
        size, count = 0, 0
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        with path.open("wb") as file:
            file.write(json.dumps({"format": FORMAT, "version": version}).encode() + b"\n")
            for count, line in enumerate(lines, start=1):  # noqa: B007 - the last one is used
                size += file.write(line + b"\n")
                if size > LARGEST:
                    return size
            # The last line tells a whole file from one that lost its end.
            file.write(json.dumps({"count": count}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return size

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_SUFFIX}"


def _cached(head: KubeObject, lines: list[KubeObject]) -> Cached:
    """Return the content of a file. Raises ValueError, KeyError or TypeError."""
    if head["format"] != FORMAT:
        raise ValueError(f"format {head['format']} instead of {FORMAT}")
    if not lines or lines[-1]["count"] != len(lines) - 1:
        raise ValueError("its end is missing")
    objects = tuple(lines[:-1])
    if not isinstance(head["version"], str) or not all(isinstance(one, dict) for one in objects):
        raise TypeError("not objects of Kubernetes")
    return Cached(head["version"], objects)
