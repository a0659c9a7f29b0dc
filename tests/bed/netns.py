"""Network namespaces: the walls of the simulated hosts and pods.

In come names; out come namespaces in which programs and this process's own sockets can be placed.
Programs enter with `nsenter`, not with `ip netns exec`, which would give them another /sys. Must
not know what a namespace stands for.
"""

import ctypes
import errno
import fcntl
import http.client
import itertools
import os
import random
import secrets
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from tests.bed.janitor import NETNS_DIR, Keeper, process_janitor
from tests.bed.waiting import PATIENCE, WITHIN

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
ETHTOOL_STXCSUM = 0x17

_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """One network namespace under /run/netns."""

    def __init__(self, name: str, *, keeper: Keeper | None = None) -> None:
        self.name = name
        self._keeper = keeper or process_janitor()

    @property
    def path(self) -> Path:
        """The file that stands for the namespace; what a runtime passes as CNI_NETNS."""
        return NETNS_DIR / self.name

    @property
    def enter(self) -> list[str]:
        """The words that, put before a command, run it inside."""
        return ["nsenter", f"--net={self.path}", "--"]

    def create(self) -> "Namespace":
        """Make the namespace, loopback up."""
        self._keeper.watch_namespace(self.name)
        _ip("netns", "add", self.name)
        self.run(["ip", "link", "set", "lo", "up"])
        return self

    def delete(self) -> None:
        """Remove the namespace and with it its links; nothing happens if it is gone."""
        if self.path.exists():
            _ip("netns", "delete", self.name)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        timeout: float | None = WITHIN,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside and return when it is done; `check` raises with its output."""
        done = subprocess.run(
            [*self.enter, *map(str, command)],
            check=False,
            capture_output=True,
            text=True,
            env=None if env is None else {**os.environ, **env},
            timeout=None if timeout is None else timeout * PATIENCE,
        )
        if check and done.returncode:
            words = " ".join(map(str, command))
            raise RuntimeError(f"{self.name}: {words}: {done.stderr or done.stdout}")
        return done

    def popen(
        self,
        command: Sequence[str | Path],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command inside, its output appended to `log`; it is killed when the run ends."""
        with (log or Path(os.devnull)).open("ab") as output:
            process = subprocess.Popen(
                [*self.enter, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else {**os.environ, **env},
                start_new_session=True,
            )
        self._keeper.watch_pid(process.pid)
        return process

    def call(self, function: Callable[[], T]) -> T:
        """Call a function while this thread is inside; a socket it makes stays inside for good."""
        with self._entered():
            return function()

    @contextmanager
    def _entered(self) -> "Iterator[None]":
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        inside = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(inside)
            try:
                yield
            finally:
                _setns(home)
        finally:
            os.close(inside)
            os.close(home)


_names = itertools.count(secrets.randbelow(1 << 16))


def fresh_name(role: str) -> str:
    """Return a namespace name that nothing else in this run has, nor what an earlier one left."""
    return f"ct{os.getpid()}-{next(_names) & 0xFFFF:04x}-{role}"


_FIRST_PORT, _PORTS, _SHARES = 10_000, 1_000, 22

_claims: list[socket.socket] = []


@cache
def _own_ports() -> "Iterator[int]":
    """Return ports that no other process of tests looks at while this one lives.

    Two that take the same free port, before a daemon of either listens, are in each other's way. A
    process holds a share of the ports by a socket whose name no other can have.
    """
    for share in random.sample(range(_SHARES), _SHARES):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0contiv-test-ports-{share}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        first = _FIRST_PORT + share * _PORTS
        return itertools.cycle(random.sample(range(first, first + _PORTS), _PORTS))
    raise RuntimeError(f"{_SHARES} runs of tests at a time leave no ports for another one")


def free_port(namespace: Namespace | None = None, address: str = "127.0.0.1") -> int:
    """Find a TCP port nobody listens on right now.

    It is none of those that the kernel gives to outgoing connections, which would take it before
    a daemon has started, none that was found before, and none of another process of tests.
    """

    def is_free(port: int) -> bool:
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError as exc:
                if exc.errno != errno.EADDRINUSE:
                    raise
                return False
        return True

    def ask() -> int:
        return next(port for port in _own_ports() if is_free(port))

    return ask() if namespace is None else namespace.call(ask)


def tx_checksum_off(namespace: Namespace, device: str) -> None:
    """Make a link write its checksums: a userspace switch at its other end does not (TCP hangs)."""
    value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
    with namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as door:
        fcntl.ioctl(door, SIOCETHTOOL, request)


def http_request(
    url: str,
    *,
    namespace: Namespace | None = None,
    method: str = "GET",
    body: bytes | None = None,
    timeout: float = 60,
    context: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """One HTTP exchange from inside a namespace: status and body. Refusals raise `OSError`."""
    timeout *= PATIENCE
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout)
    )
    try:
        if namespace is None:
            connection.connect()
        else:
            namespace.call(connection.connect)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def answers(
    url: str,
    *,
    namespace: Namespace | None = None,
    text: bytes = b"",
    context: ssl.SSLContext | None = None,
) -> bool:
    """Whether a GET is answered 200 with a body that holds `text`."""
    try:
        status, body = http_request(url, namespace=namespace, timeout=5, context=context)
    except (OSError, http.client.HTTPException):
        return False
    return status == http.HTTPStatus.OK and text in body


def _setns(handle: int) -> None:
    if _libc.setns(handle, CLONE_NEWNET) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"setns: {os.strerror(errno)}")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr}")
