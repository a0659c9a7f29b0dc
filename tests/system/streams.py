"""Streams between pods whose size is known, and packets that begin connections."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

from tests.bed.ovs import DATAPATH
from tests.bed.pods import Pod


def address6(pod: Pod) -> str:
    """Return the pod's address of IPv6."""
    return str(pod.result["ips"][1]["address"]).partition("/")[0]


@contextmanager
def accepting(pod: Pod, port: int, serve_one: Callable[[socket.socket], None]) -> Iterator[None]:
    """Have a pod accept connections by both families, each on a thread of its own."""

    def listen() -> socket.socket:
        return socket.create_server(
            ("::", port), family=socket.AF_INET6, backlog=64, dualstack_ipv6=True
        )

    def serve() -> None:
        while True:
            try:
                end, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve_one, args=(end,), daemon=True).start()

    server = pod.namespace.call(listen)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.close()


def taking(pod: Pod, port: int) -> AbstractContextManager[None]:
    """Have a pod take whatever connections send, by both families."""
    return accepting(pod, port, _take)


def _take(end: socket.socket) -> None:
    with suppress(ConnectionError), end:
        while end.recv(1 << 16):
            pass


class Sent(NamedTuple):
    """What a connection has sent from its own port, in frames, as the kernel of its pod counts.

    What was lost before it came to the switch is sent again: it is among `most`, not among `least`.
    Nor are heads, by the kernel's datapath: there segments go from pod to pod by the dozen, with
    one head.
    """

    port: int
    least: int
    most: int


def send(pod: Pod, address: str, port: int, seconds: float) -> Sent:
    """Send for a while over one connection, until the other end has all of it."""

    def write(end: socket.socket) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            end.sendall(bytes(50_000))
            time.sleep(0.02)

    return _send(pod, address, port, write)


def send_bytes(pod: Pod, address: str, port: int, size: int) -> Sent:
    """Send so many bytes over one connection, until the other end has all of them."""
    return _send(pod, address, port, lambda end: end.sendall(bytes(size)))


def _send(pod: Pod, address: str, port: int, write: Callable[[socket.socket], object]) -> Sent:
    family, head = (socket.AF_INET6, 86) if ":" in address else (socket.AF_INET, 66)
    end = pod.namespace.call(lambda: socket.socket(family))
    with end:
        end.settimeout(60)
        end.connect((address, port))
        write(end)
        end.shutdown(socket.SHUT_WR)
        assert end.recv(1) == b""
        info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        (again,) = struct.unpack_from("I", info, RETRANSMITTED)
        (segments,) = struct.unpack_from("I", info, SEGMENTS_OUT)
        (size,) = struct.unpack_from("Q", info, BYTES_SENT)
        (acknowledged,) = struct.unpack_from("Q", info, BYTES_ACKNOWLEDGED)
        sent_from: int = end.getsockname()[1]
        heads = (segments - again) * head if DATAPATH != "system" else 0
        return Sent(sent_from, acknowledged + heads, size + segments * head)


RETRANSMITTED, BYTES_ACKNOWLEDGED, SEGMENTS_OUT, BYTES_SENT = 100, 120, 136, 200
"""Where Linux has `tcpi_total_retrans` and others in `struct tcp_info`."""


def syns(pod: Pod, address: str, port: int, ports: range, pause: float) -> None:
    """Send the first packet of a connection from each of some ports."""
    raw = pod.namespace.call(
        lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    )
    with raw:
        for number in ports:
            head = struct.pack(">HHIIHHHH", number, port, 1, 0, 0x5002, 1024, 0, 0)
            raw.sendto(head, (address, 0))
            time.sleep(pause)
