"""Ways between pods, their host and the outside: whether one is open, and whether it stays so.

In come namespaces and addresses; out come echoes, connections and who they came from. Must not know
what makes a way.
"""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from tests.bed.netns import Namespace
from tests.bed.pods import Pod
from tests.bed.waiting import PATIENCE, eventually

HEADERS = 28
"""Bytes of IPv4 and ICMP around what an echo request carries."""
FEW = 10
"""Answers by which a way shows that it is open."""


def private_address(pod: Pod, network: str = "172.19") -> str:
    """Return what its host knows a pod by: the number of its port."""
    number = int(pod.result["interfaces"][0]["name"].removeprefix("vvport"))
    return f"{network}.{number >> 8}.{number & 255}"


def private_address6(pod: Pod) -> str:
    """Return what its host knows a pod by, by IPv6."""
    return str(IPv6Address(f"fd63:6f6e:7469:7602::{private_address(pod)}"))


def reaches(source: Namespace, address: str) -> bool:
    ping = ["ping", "-q", "-n", "-c", "1", "-W", f"{PATIENCE:g}", address]
    return source.run(ping, check=False).returncode == 0


def passes(source: Namespace, address: str, size: int) -> bool:
    """Say whether a packet of so many bytes passes in one piece, and its answer too."""
    words = [
        "ping",
        "-q",
        "-n",
        "-c1",
        f"-W{2 * PATIENCE:g}",
        "-M",
        "do",
        "-s",
        str(size - HEADERS),
        address,
    ]
    return source.run(words, check=False).returncode == 0


def refused(address: str, port: int, within: float) -> bool:
    """Send a datagram; return whether the port is reported closed within so many seconds."""
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as client:
        client.settimeout(within * PATIENCE)
        client.connect((address, port))
        client.send(b"x")
        try:
            return client.recv(1) == b""
        except ConnectionRefusedError:
            return True
        except TimeoutError:
            return False


@contextmanager
def answering(namespace: Namespace, address: str, port: int) -> Iterator[list[str]]:
    """Accept connections to an address; yield the addresses they came from."""

    def listen() -> socket.socket:
        return socket.create_server((address, port), family=family_of(address))

    callers: list[str] = []
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, (caller, *_) = server.accept()
            except TimeoutError:
                continue
            with connection:
                callers.append(caller)

    with namespace.call(listen) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield callers
        finally:
            ended.set()
            thread.join()


def dials(source: Namespace, address: str, port: int, patience: float = 10.0) -> bool:
    with source.call(lambda: socket.socket(family_of(address), socket.SOCK_STREAM)) as client:
        client.settimeout(patience * PATIENCE)
        try:
            client.connect((address, port))
        except OSError:
            return False
        return True


@contextmanager
def echoing(namespace: Namespace, address: str, port: int) -> Iterator[list[str]]:
    """Answer datagrams to an address; yield the addresses they came from."""

    def listen() -> socket.socket:
        end = socket.socket(family_of(address), socket.SOCK_DGRAM)
        end.bind((address, port))
        return end

    callers: list[str] = []
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            try:
                data, caller = server.recvfrom(65535)
            except TimeoutError:
                continue
            callers.append(caller[0])
            server.sendto(data, caller)

    with namespace.call(listen) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield callers
        finally:
            ended.set()
            thread.join()


def asks(source: Namespace, address: str, port: int, size: int = 10, patience: float = 5.0) -> bool:
    """Say whether a datagram comes back."""
    with source.call(lambda: socket.socket(family_of(address), socket.SOCK_DGRAM)) as client:
        client.settimeout(patience * PATIENCE)
        client.connect((address, port))
        try:
            client.send(b"x" * size)
            return client.recv(65535) == b"x" * size
        except OSError:
            return False


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6


@dataclass(frozen=True)
class Way:
    """Echo requests from a namespace to an address, one after the other, and their answers."""

    name: str
    log: Path

    def answered(self) -> set[int]:
        return {int(n) for n in re.findall(r"bytes from .* icmp_seq=(\d+)", self.log.read_text())}

    def goes_on(self) -> None:
        begin = max(self.answered(), default=0)
        wanted = begin + FEW
        eventually(lambda: max(self.answered(), default=0) >= wanted, self.name)

    def missing(self) -> set[int]:
        answered = self.answered()
        return set(range(min(answered), max(answered) + 1)) - answered


@contextmanager
def pinging(
    tmp_path: Path, interval: float = 0.05, /, **ways: tuple[Namespace, str]
) -> Iterator[list[Way]]:
    running = [
        (
            Way(name, tmp_path / name),
            source.popen(["ping", "-n", "-i", str(interval), to], log=tmp_path / name),
        )
        for name, (source, to) in ways.items()
    ]
    try:
        yield [way for way, _ in running]
    finally:
        for _, process in running:
            process.kill()
            process.wait()


@contextmanager
def unbroken(directory: Path, **ways: tuple[Namespace, str]) -> Iterator[None]:
    """Fail unless each way is open before and after the body, and loses nothing meanwhile."""
    with pinging(directory, **ways) as running:
        for way in running:
            way.goes_on()
        yield
        for way in running:
            way.goes_on()
        assert {way.name: way.missing() for way in running} == {name: set() for name in ways}
