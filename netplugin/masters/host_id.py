"""The id of this host and the key of its flows: of one secret, made once, in the data directory.

In comes the file's path. The id is a text that no other host has, also not one whose disk is a copy
of this one's, for the machine's own id is part of it; `netplugin.masters.label_claim` writes it
into the host record. The key (`ofnet.digests`) stays on the host.
"""

import hashlib
import logging
import os
import secrets
from pathlib import Path
from typing import Final

from core.errors import HostError
from core.logs import fields

log = logging.getLogger(__name__)

MACHINE_ID: Final = Path("/etc/machine-id")
_LENGTH: Final = 32
_PRIVATE: Final = 0o600


def host_id(file: Path, machine_id: Path = MACHINE_ID) -> str:
    """Return the id; the file is created if it is missing. Raises HostError."""
    secret = _secret(file)
    try:
        machine = _read(machine_id)
    except OSError as exc:
        raise HostError(f"cannot read the id of this machine: {exc}") from exc
    return hashlib.sha256(f"{secret}/{machine}".encode()).hexdigest()[:_LENGTH]


def flow_key(file: Path) -> bytes:
    """Return 32 bytes that the id does not tell; the file is created if missing. Raises HostError.

    The file of an older agent, which everybody could read, is closed to others.
    """
    secret = _secret(file)
    return hashlib.sha256(f"flows/{secret}".encode()).digest()


def _secret(file: Path) -> str:
    try:
        kept = _read(file)
        if not kept:
            return _create(file)
        if file.stat().st_mode & ~_PRIVATE & 0o777:
            _close(file)
    except (OSError, UnicodeDecodeError) as exc:
        raise HostError(f"cannot keep the id of this host in {file}: {exc}") from exc
    return kept


def _close(file: Path) -> None:
    try:
        file.chmod(_PRIVATE)
    except PermissionError as exc:
        # of another user, from whom this agent may read it
        what = "others can read the secret of this host's flows, chown the file to the agent's user"
        log.warning(what, extra=fields(path=str(file), error=str(exc)))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _create(file: Path) -> str:
    made = secrets.token_hex(16)
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_suffix(".tmp")
    half.unlink(missing_ok=True)  # what an agent that was killed left has its own mode
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.write(f"{made}\n")
        out.flush()
        os.fsync(out.fileno())
    half.replace(file)
    return made
