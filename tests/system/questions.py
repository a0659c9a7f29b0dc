"""DNS questions of pods, and a server that answers them: what a pod is told of a name.

In come pods; out come addresses. Must not know who answers.
"""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

import dns.message
import dns.rrset

from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import family_of

TRIES = 3
"""How often a question is asked at most."""

OUTSIDE = "192.0.2.53"
"""What the server that pods ask says of any name."""


@contextmanager
def serving(pod: Pod) -> Iterator[str]:
    """Answer DNS requests in a pod, by UDP and TCP; give its address."""
    ended = threading.Event()

    def make() -> socket.socket:
        end = socket.socket(family_of(pod.address), socket.SOCK_DGRAM)
        end.bind((pod.address, 53))
        end.settimeout(0.1)
        return end

    def serve() -> None:
        while not ended.is_set():
            try:
                message, asker = server.recvfrom(2048)
            except TimeoutError:
                continue
            server.sendto(_outside(message), asker)

    def make_stream() -> socket.socket:
        end = socket.create_server((pod.address, 53), family=family_of(pod.address))
        end.settimeout(0.1)
        return end

    def serve_stream() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection, suppress(OSError):
                connection.settimeout(5)
                reply = _outside(_received(connection))
                connection.sendall(len(reply).to_bytes(2) + reply)

    with pod.namespace.call(make) as server, pod.namespace.call(make_stream) as listener:
        threads = [threading.Thread(target=serve), threading.Thread(target=serve_stream)]
        for thread in threads:
            thread.start()
        try:
            yield pod.address
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def _outside(message: bytes) -> bytes:
    query = dns.message.from_wire(message)
    reply = dns.message.make_response(query)
    reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", OUTSIDE))
    return reply.to_wire()


def _received(connection: socket.socket) -> bytes:
    """Return one message of a stream. Raises OSError if the stream ends before."""
    data = b""
    while len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2]):
        part = connection.recv(4096)
        if not part:
            raise ConnectionResetError("half a message")
        data += part
    return data[2:]


def reply_to(
    pod: Pod, server: str, name: str, rdtype: str = "A", *, tcp: bool = False
) -> dns.message.Message | None:
    """Ask once, as a resolver does; return the reply, None without one."""
    query = dns.message.make_query(name, rdtype)
    kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM

    def make() -> socket.socket:
        return socket.socket(family_of(server), kind)

    with pod.namespace.call(make) as asker:
        asker.settimeout(6 if tcp else 1)
        try:
            asker.connect((server, 53))
            if tcp:
                asker.sendall(query.to_wire(prepend_length=True))
                reply = dns.message.from_wire(_received(asker))
            else:
                asker.send(query.to_wire())
                reply = dns.message.from_wire(asker.recv(2048))
        except OSError:
            return None
    assert query.is_response(reply)
    return reply


def asked(
    pod: Pod, server: str, name: str, rdtype: str = "A", *, tcp: bool = False
) -> set[str] | None:
    """Ask once, as a resolver does; return the addresses of the answer, None without one."""
    reply = reply_to(pod, server, name, rdtype, tcp=tcp)
    if reply is None:
        return None
    return {record.address for records in reply.answer for record in records}


def hears(
    pod: Pod, server: str, name: str, wanted: set[str], rdtype: str = "A", *, tcp: bool = False
) -> None:
    """Wait until a pod that asks for a name is told these addresses."""
    eventually(
        lambda: asked(pod, server, name, rdtype, tcp=tcp) == wanted,
        f"{name} is {wanted}",
    )


@contextmanager
def asking(pod: Pod, server: str, name: str, rate: int, tries: int = TRIES) -> Iterator["Asker"]:
    """Ask for a name again and again, so many times a second, by one socket."""

    def make() -> socket.socket:
        return socket.socket(family_of(server), socket.SOCK_DGRAM)

    with pod.namespace.call(make) as end:
        end.connect((server, 53))
        end.setblocking(False)
        asker = Asker(end, name, 1 / rate, tries)
        thread = threading.Thread(target=asker.run)
        thread.start()
        try:
            yield asker
        finally:
            asker.ended.set()
            thread.join()


class Asker:
    """Asks as a stub resolver does: what has no answer after a second is asked again."""

    def __init__(self, end: socket.socket, name: str, pause: float, tries: int) -> None:
        self.ended = threading.Event()
        self.heard: Counter[str] = Counter()
        """How often each address was told."""

        self.unanswered = 0
        """Questions that had no answer when they had been asked `tries` times."""

        self.again = 0
        """Questions that were asked more than once."""

        self._end = end
        self._name = name
        self._pause = pause
        self._tries = tries
        self._open: dict[int, tuple[float, int]] = {}

    def run(self) -> None:
        """Ask until the end is set, and then until every question has an answer or is given up."""
        numbers = count(1)
        while not self.ended.wait(self._pause) or self._open:
            if not self.ended.is_set():
                self._ask(next(numbers) & 0xFFFF, 1)
            self._hear()
            for number, (since, times) in list(self._open.items()):
                if time.monotonic() - since < 1:
                    continue
                if times == self._tries:
                    self.unanswered += 1
                    del self._open[number]
                else:
                    self.again += times == 1
                    self._ask(number, times + 1)

    def _ask(self, number: int, times: int) -> None:
        query = dns.message.make_query(self._name, "A", id=number)
        self._open[number] = time.monotonic(), times
        with suppress(OSError):
            self._end.send(query.to_wire())

    def _hear(self) -> None:
        with suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                reply = dns.message.from_wire(self._end.recv(2048))
                if self._open.pop(reply.id, None) is not None:
                    self.heard.update(one.address for records in reply.answer for one in records)
