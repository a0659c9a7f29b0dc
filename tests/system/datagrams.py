"""Clients that send datagrams by one socket each, and pods that answer them by their names.

In come namespaces, addresses and pods; out come who answered, and when a pod heard any.
"""

import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import NamedTuple, Self

from tests.bed.netns import Namespace
from tests.bed.pods import Pod
from tests.bed.waiting import eventually

PAUSE = 0.05
PATIENCE = 0.5
MANY = 20
"""Answers by which a way shows that it stays as it is."""


class Heard(NamedTuple):
    """A datagram that arrived: when, by the monotonic clock, and what it says."""

    at: float
    text: str


class Asker(ABC):
    """Sends by one socket without a pause, and notes who answers."""

    def __init__(self, source: Namespace) -> None:
        self.heard: list[str] = []
        self._ended = threading.Event()
        self._mouth = source.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._mouth.settimeout(PAUSE)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._mouth.close()

    def hears(self, name: str) -> bool:
        return self.heard[-1:] == [name]

    @abstractmethod
    def _send(self) -> None:
        """Send once. Raises OSError."""

    def _run(self) -> None:
        while not self._ended.wait(PAUSE):
            try:
                self._send()
                self.heard.append(self._mouth.recv(100).decode())
            except OSError:  # refused, or no answer now
                continue


class Client(Asker):
    """Sends a text to one address and port."""

    def __init__(self, source: Namespace, address: str, port: int, text: str = "who") -> None:
        super().__init__(source)
        self._text = text.encode()
        self._mouth.connect((address, port))

    def _send(self) -> None:
        self._mouth.send(self._text)

    def hears_nobody_but(self, name: str) -> None:
        begin = len(self.heard)
        eventually(lambda: len(self.heard) > begin + MANY, f"answers of {name}")
        assert set(self.heard[begin:]) == {name}


class Mouth:
    """One socket that sends to one address and port, when it is told to."""

    def __init__(self, source: Namespace, address: str, port: int) -> None:
        family = _family(ip_address(address).version)
        self._socket = source.call(lambda: socket.socket(family, socket.SOCK_DGRAM))
        self._socket.settimeout(PATIENCE)
        self._socket.connect((address, port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def hears(self, name: str) -> bool:
        """Send once; say whether the answer is this name."""
        try:
            self._socket.send(b"who")
            return self._socket.recv(100) == name.encode()
        except OSError:
            return False


@contextmanager
def naming(pod: Pod, port: int, name: str = "", version: int = 4) -> Iterator[list[Heard]]:
    """Have a pod answer datagrams by its name, or by another one; yield what it hears."""

    def listen() -> socket.socket:
        ear = socket.socket(_family(version), socket.SOCK_DGRAM)
        ear.bind(("", port))
        ear.settimeout(0.1)
        return ear

    heard: list[Heard] = []
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            try:
                text, sender = ear.recvfrom(100)
            except TimeoutError:
                continue
            heard.append(Heard(time.monotonic(), text.decode()))
            ear.sendto((name or pod.name).encode(), sender)

    with pod.namespace.call(listen) as ear:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield heard
        finally:
            ended.set()
            thread.join()


def _family(version: int) -> socket.AddressFamily:
    return socket.AF_INET if version == 4 else socket.AF_INET6
