"""A private docker engine: its own data, sockets, containerd and mounts, in a network namespace.

In come a namespace and a directory; out comes `socket`, ready for clients. It makes no bridge and
no firewall rule by itself, and what it writes to the machine's /etc/docker and /run/docker is seen
by nobody and gone with it.
"""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper
from tests.bed.netns import Namespace

_ALONE = (
    "mkdir -p /run/docker && mount -t tmpfs none /etc/docker && mount -t tmpfs none /run/docker "
    '&& exec dockerd "$@"'
)


class Dockerd(Daemon):
    """One docker engine."""

    def __init__(
        self,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        namespace: Namespace,
        *,
        keeper: Keeper | None = None,
    ) -> None:
        self.socket = dir / "docker.sock"
        super().__init__(
            [
                *("unshare", "--mount", "--propagation", "private", "sh", "-c", _ALONE, "dockerd"),
                *("--host", f"unix://{self.socket}", "--pidfile", dir / "dockerd.pid"),
                *("--data-root", dir / "docker", "--exec-root", dir / "exec"),
                *("--storage-driver", "vfs", "--bridge", "none"),
                *("--iptables=false", "--ip6tables=false"),
            ],
            log=dir / "dockerd.log",
            namespace=namespace,
            ready=lambda: _answers(self.socket),
            keeper=keeper,
        )

    def network(self, name: str) -> dict[str, Any] | None:
        """Show a network as docker does; None if there is none of that name."""
        status, shown = ask(self.socket, "GET", f"/networks/{name}")
        return shown if status == http.client.OK else None


class _Connection(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=20)
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
