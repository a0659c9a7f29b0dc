"""A private docker engine: its own data, sockets, containerd and mounts, in a network namespace.

In come a namespace and a directory; out comes `socket`, ready for clients. It makes no bridge and
no firewall rule by itself unless told to (`FILTERING`). What it writes to the machine's /etc/docker
and /run/docker is seen by nobody and gone with its mounts (`Mounts`), which outlive an engine that
is killed and restarted. `tests.bed.engines` runs containers on it.
"""

import http.client
import json
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper, process_janitor
from tests.bed.netns import Namespace

FILTERING = ("--bridge=docker0", "--iptables=true")
"""Flags by which an engine makes its bridge and keeps its firewall, as it does on real hosts."""
_ALONE = (
    "mkdir -p /run/docker && mount -t tmpfs none /etc/docker && mount -t tmpfs none /run/docker "
    '&& mkdir /run/docker/plugins && mount --bind "$1" /run/docker/plugins '
    "&& echo mounted && exec sleep infinity"
)


class Mounts:
    """The mounts of one host: what its engine, its agent and no other see.

    `plugins` is a directory in which the engine finds its plugins.
    """

    def __init__(self, plugins: Path, *, keeper: Keeper | None = None) -> None:
        self.plugins = plugins
        self._keeper = keeper or process_janitor()
        self._holder: subprocess.Popen[str] | None = None

    @property
    def enter(self) -> list[str]:
        """The words that, put before a command, run it inside."""
        assert self._holder is not None, "the mounts are not there yet"
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]

    def create(self) -> "Mounts":
        """Make the mounts; a process keeps them."""
        self.plugins.mkdir(parents=True, exist_ok=True)
        alone = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ALONE, "sh"]
        self._holder = subprocess.Popen(
            [*alone, str(self.plugins)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._keeper.watch_pid(self._holder.pid)
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "mounted\n":
            raise RuntimeError(f"no mounts for {self.plugins}")
        return self

    def delete(self) -> None:
        """End the process; the mounts go with what else runs in them."""
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
            if self._holder.stdout is not None:
                self._holder.stdout.close()
            self._holder = None


class Dockerd(Daemon):
    """One docker engine."""

    def __init__(
        self,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        namespace: Namespace,
        *,
        mounts: Mounts | None = None,
        flags: Sequence[str] = (),
        keeper: Keeper | None = None,
    ) -> None:
        self.socket = dir / "docker.sock"
        self._mounts = mounts or Mounts(dir / "plugins", keeper=keeper)
        self._own_mounts = mounts is None
        super().__init__(
            [
                "dockerd",
                *("--host", f"unix://{self.socket}", "--pidfile", dir / "dockerd.pid"),
                *("--data-root", dir / "docker", "--exec-root", dir / "exec"),
                *("--storage-driver", "vfs", "--bridge", "none"),
                *("--iptables=false", "--ip6tables=false"),
                *flags,
            ],
            log=dir / "dockerd.log",
            namespace=namespace,
            ready=lambda: _answers(self.socket),
            keeper=keeper,
        )

    def spawn(self) -> None:
        """Start the engine in its mounts."""
        if self._own_mounts:
            self._mounts.delete()
            self._mounts.create()
        super().spawn()

    def stop(self) -> None:
        """End the engine in good order, and its mounts if they are its own."""
        super().stop()
        if self._own_mounts:
            self._mounts.delete()

    def prefix(self) -> list[str]:
        """Return what runs before the program."""
        return [*super().prefix(), *self._mounts.enter]

    def network(self, name: str) -> dict[str, Any] | None:
        """Show a network as docker does; None if there is none of that name."""
        status, shown = ask(self.socket, "GET", f"/networks/{name}")
        return shown if status == http.client.OK else None


class _Connection(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def ask(path: Path, method: str, url: str, body: object = None) -> tuple[int, Any]:
    """Send one request to an engine; return status and data of the answer."""
    connection = _Connection(path)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, url, payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text.strip() else None
    finally:
        connection.close()


def _answers(path: Path) -> bool:
    try:
        return ask(path, "GET", "/version")[0] == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
