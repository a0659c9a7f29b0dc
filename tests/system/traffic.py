"""Connections between pods: whether one comes about, judged by both ends.

A port that is blocked must be shown open in the same breath, or a server that is late would pass
for a policy: `blocked` has the server listening and reached from its own namespace first.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.bed.pods import Pod
from tests.bed.waiting import repeating

PATIENCE = 10.0
"""Seconds a connection that must come about may take."""

SILENCE = 1.0
"""Seconds without an answer after which a connection counts as denied."""


def connects(source: Pod, target: Pod, address: str, port: int) -> bool:
    """Tell whether a TCP connection comes about, trying for a while."""
    with _listening(target, address, port):
        return _dial(source, address, port, PATIENCE)


def blocked(source: Pod, target: Pod, address: str, port: int) -> bool:
    """Tell whether a TCP connection does not come about though somebody listens."""
    with _listening(target, address, port):
        assert _dial(target, address, port, PATIENCE), "the server listens"
        return not _dial(source, address, port, SILENCE)


@contextmanager
def _listening(pod: Pod, address: str, port: int) -> Iterator[None]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def listen() -> socket.socket:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen()
        return server

    server = pod.namespace.call(listen)
    server.settimeout(0.1)

    def accept() -> None:
        with suppress(TimeoutError):
            server.accept()[0].close()

    try:
        with repeating(accept, 0):
            yield
    finally:
        server.close()


def _dial(pod: Pod, address: str, port: int, patience: float) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = pod.namespace.call(lambda: socket.socket(family, socket.SOCK_STREAM))
    with client:
        client.settimeout(patience)
        try:
            client.connect((address, port))
        except (TimeoutError, OSError):
            return False
        return True
