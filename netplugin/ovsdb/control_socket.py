"""Commands to ovs-vswitchd over its control socket, as `ovs-appctl` sends them.

In comes the run directory of Open vSwitch; out go answers as text. The protocol is JSON-RPC on a
unix socket with the process id in its name, so that a restarted daemon has another one.
"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final, Protocol

from core.errors import SwitchRefused, SwitchUnavailable
from core.outside_json import read_json
from core.patience import patient

DEFAULT_RUNDIR: Final = Path("/var/run/openvswitch")
_DAEMON: Final = "ovs-vswitchd"
_CHUNK: Final = 65_536
_UNIX_SOCKETS: Final = Path("/proc/net/unix")


def rundir_of(remote: str) -> Path:
    """Return the run directory that belongs to a database's address: that of its socket."""
    scheme, _, path = remote.partition(":")
    return Path(path).parent if scheme == "unix" else DEFAULT_RUNDIR


def vswitchd_rundir(rundir: Path, sockets: Path = _UNIX_SOCKETS) -> Path:
    """Return a run directory by the name that ovs-vswitchd knows it by; else as given.

    The names differ where one is a symbolic link (/var/run), and where ovs-vswitchd or this process
    runs in a container. ovs-vswitchd compares paths as text.
    """
    # The kernel lists each unix socket under the path that its owner bound it to, and ovs-vswitchd
    # binds its control socket in its run directory.
    try:
        name = ControlSocket(rundir).path().name
        listed = sockets.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except (OSError, SwitchUnavailable):
        return rundir
    paths = [Path(columns[7]) for line in listed if len(columns := line.split(None, 7)) == 8]
    found = {path.parent for path in paths if path.is_absolute() and path.name == name}
    return rundir if rundir in found or len(found) != 1 else found.pop()


class SwitchCommands(Protocol):
    """What callers use of `ControlSocket`."""

    async def call(self, command: str, *arguments: str) -> str:
        """Return the answer to a command. Raises SwitchUnavailable or SwitchRefused."""
        ...


class ControlSocket:
    """The control socket of ovs-vswitchd; `limit` is the time for each command, in seconds."""

    def __init__(self, rundir: Path, *, limit: float = patient(5.0)) -> None:
        self._rundir = rundir
        self._pidfile = rundir / f"{_DAEMON}.pid"  # once: pathlib interns each part of a new path
        self._limit = limit

    def path(self) -> Path:
        """Return the socket of the daemon that runs now. Raises SwitchUnavailable."""
        try:
            pid = int(self._pidfile.read_text(encoding="ascii"))
        except (OSError, ValueError) as exc:
            raise SwitchUnavailable(f"{self._pidfile} has no process id: {exc}") from exc
        return self._rundir / f"{_DAEMON}.{pid}.ctl"

    async def call(self, command: str, *arguments: str) -> str:
        """Return the answer to a command. Raises SwitchUnavailable or SwitchRefused."""
        path = self.path()
        try:
            async with asyncio.timeout(self._limit):
                answer = await _ask(path, {"id": 0, "method": command, "params": [*arguments]})
        except (OSError, TimeoutError, ValueError) as exc:
            reason = str(exc) or f"nothing within {self._limit:g} s"
            raise SwitchUnavailable(f"ovs-vswitchd at {path} does not answer: {reason}") from exc
        if answer.get("error") is not None:
            raise SwitchRefused(f"Open vSwitch: {command}: {answer['error']}")
        return str(answer.get("result") or "")


async def _ask(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(json.dumps(request).encode())
        await writer.drain()
        # Messages have no length and no end mark: one is complete when it can be decoded.
        received = b""
        while chunk := await reader.read(_CHUNK):
            received += chunk
            if not chunk.rstrip().endswith(
                b"}"
            ):  # long answers are decoded once, not with each part
                continue
            try:
                answer = read_json(received)
            except ValueError:
                continue
            if isinstance(answer, dict):
                return answer
            raise ValueError(f"not a JSON-RPC answer: {received[:80]!r}")
        raise ConnectionResetError("ovs-vswitchd closed the control connection without an answer")
    finally:
        writer.close()
