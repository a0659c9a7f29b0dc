"""The id of this host: made once, and kept in the data directory.

In comes the file's path; out comes a text that no other host has, also not one whose disk is a copy
of this one's, for the machine's own id is part of it. `netplugin.masters.label_claim` writes it
into the host record.
"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

from core.errors import HostError

MACHINE_ID: Final = Path("/etc/machine-id")
_LENGTH: Final = 32


def host_id(file: Path, machine_id: Path = MACHINE_ID) -> str:
    """Return the id; the file is created if it is missing. Raises HostError."""
    try:
        made = _read(file) or _create(file)
        machine = _read(machine_id)
    except OSError as exc:
        raise HostError(f"cannot keep the id of this host: {exc}") from exc
    return hashlib.sha256(f"{made}/{machine}".encode()).hexdigest()[:_LENGTH]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _create(file: Path) -> str:
    made = secrets.token_hex(16)
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_suffix(".tmp")
    with half.open("w", encoding="ascii") as out:
        out.write(f"{made}\n")
        out.flush()
        os.fsync(out.fileno())
    half.replace(file)
    return made
