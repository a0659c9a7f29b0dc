"""Unix sockets that the daemons listen on: for one user alone, and free of what a dead daemon left.

In come paths; out come bound sockets, and the user at the other end of a connection. Who may
connect is decided twice: by the mode of the socket, and by the listener with `peer_uid`. Knows no
protocol.
"""

import asyncio
import errno
import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final

from core.errors import HostError, Invalid
from core.service_manager import passed_socket

MAX_PATH: Final = 107
"""Longest path of a unix socket in bytes (sockaddr_un)."""

_SOCKETS: Final = Path("/proc/net/unix")
_ACCEPTS: Final = 0x10000
"""`__SO_ACCEPTCON` of `include/linux/net.h`: it listens."""

_CREDENTIALS: Final = struct.Struct("3i")
"""`struct ucred`: process, user, group (unix(7), SO_PEERCRED)."""


def listen(path: Path, what: str, *, owner: int | None = None) -> socket.socket:
    """Return a socket bound to `path` with mode 0600; a dead process's socket is replaced.

    A socket that the service manager holds there for this daemon is returned as it is: its calls
    wait while the daemon restarts. `what` names it in errors. `owner` is the user who may connect
    besides root; None for the user of this process. Raises Invalid for a path that is too long,
    HostError when a process listens there, when it is no socket, or when it cannot be made.
    """
    if len(os.fsencode(path)) > MAX_PATH:
        raise Invalid(
            f"{what} socket path {path} is longer than {MAX_PATH} bytes: choose a shorter"
        )
    passed = passed_socket(path)
    if passed is not None:
        return passed
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale(path, what)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Nobody can connect before `listen` is called, so the mode may follow the bind.
            listener.bind(str(path))
            path.chmod(0o600)
            if owner is not None and owner != os.geteuid():
                os.chown(path, owner, -1)
        except OSError:
            listener.close()
            raise
    except OSError as exc:
        raise HostError(f"{what} socket {path}: {exc.strerror or exc}") from exc
    return listener


def is_served(path: Path) -> bool:
    """Return whether a process listens at a path; in doubt, one does.

    Does not connect where the kernel's list says so: a connection would start the daemon for which
    the service manager holds the socket.
    """
    try:
        return _is_served(path)
    except OSError:
        return True  # as without a free file descriptor, which says nothing of the socket


def _is_served(path: Path) -> bool:
    if _is_listed(path):
        return True
    # Not listed: no socket, or one of another network namespace or under another name. Only these
    # two errors prove that no process listens. Any other, such as a full backlog, must not let a
    # second process take the socket over.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        return probe.connect_ex(str(path)) not in {errno.ECONNREFUSED, errno.ENOENT}


def peer_uid(transport: asyncio.BaseTransport | None) -> int | None:
    """Return the user id of the other end of a connection; None when it has disconnected."""
    peer = transport and transport.get_extra_info("socket")
    if not peer:
        return None
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(found)[1]
    return uid


def _is_listed(path: Path) -> bool:
    """Return whether a socket of this network namespace listens under this very path (proc(5))."""
    for line in _SOCKETS.read_bytes().splitlines()[1:]:
        _, _, _, flags, _, _, _, *name = line.split(maxsplit=7)
        if name == [os.fsencode(path)] and int(flags, 16) & _ACCEPTS:
            return True
    return False


def _remove_stale(path: Path, what: str) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise HostError(f"{what} socket {path}: the path exists and is not a socket")
    except FileNotFoundError:
        return
    if _is_served(path):
        raise HostError(f"{what} socket {path}: another agent listens there")
    path.unlink(missing_ok=True)
