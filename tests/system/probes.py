"""Asks at once, for many pairs of pods, whether one reaches a port of the other.

In come pods by name; out comes the set of connections that were answered. TCP is asked by a
connection, UDP by a datagram that comes back. Every attempt has a port of its own, so that no
connection of before counts. Must not know of policies.
"""

import selectors
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from tests.bed.netns import Namespace
from tests.bed.waiting import PATIENCE

KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}


class Probe(NamedTuple):
    """A connection to be tried: names of pods, family (4 or 6), protocol, port."""

    source: str
    target: str
    family: int
    protocol: str
    port: int


class Ends(NamedTuple):
    """Where a pod is."""

    namespace: Namespace
    addresses: Mapping[int, str]
    """By family."""


SHORTLY = 0.1 * PATIENCE
"""Seconds after the last answer that is expected; one that is wrong comes as soon as the others."""


def answered(
    pods: Mapping[str, Ends], probes: Iterable[Probe], expected: Set[Probe], patience: float
) -> set[Probe]:
    """Try all at once; return those that were answered.

    What is expected may take so many seconds; when it has come, others are awaited but shortly.
    """
    found: set[Probe] = set()
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        for source, own in _by_source(probes).items():
            sockets = pods[source].namespace.call(partial(_sockets, own))
            for probe, end in zip(own, sockets, strict=True):
                opened.enter_context(end)
                _ask(end, probe, pods[probe.target].addresses[probe.family])
                wanted = selectors.EVENT_WRITE if probe.protocol == "TCP" else selectors.EVENT_READ
                selector.register(end, wanted, probe)
        deadline = time.monotonic() + patience * PATIENCE
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            if expected <= found and left > SHORTLY:
                deadline, left = time.monotonic() + SHORTLY, SHORTLY
            ready = selector.select(left)
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                selector.unregister(key.fileobj)
                if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    found.add(key.data)
    return found


def _by_source(probes: Iterable[Probe]) -> dict[str, list[Probe]]:
    found: dict[str, list[Probe]] = {}
    for probe in probes:
        found.setdefault(probe.source, []).append(probe)
    return found


def _sockets(probes: Iterable[Probe]) -> list[socket.socket]:
    return [_socket(probe) for probe in probes]


def _socket(probe: Probe) -> socket.socket:
    end = socket.socket(_family(probe.family), KINDS[probe.protocol])
    end.setblocking(False)
    return end


def _ask(end: socket.socket, probe: Probe, address: str) -> None:
    end.connect_ex((address, probe.port))
    if probe.protocol == "UDP":
        end.send(b"?")


def _family(family: int) -> socket.AddressFamily:
    return socket.AF_INET if family == 4 else socket.AF_INET6


@contextmanager
def serving(namespaces: Iterable[Namespace], ports: Iterable[int]) -> Iterator[None]:
    """Answer TCP and UDP of both families at ports of namespaces."""
    ended = threading.Event()
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        for namespace in namespaces:
            for end in namespace.call(lambda: _servers(ports)):
                opened.enter_context(end)
                selector.register(end, selectors.EVENT_READ)
        thread = threading.Thread(target=_serve, args=(selector, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _servers(ports: Iterable[int]) -> list[socket.socket]:
    made = []
    for port in ports:
        for family, anywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            stream = socket.socket(family, socket.SOCK_STREAM)
            datagram = socket.socket(family, socket.SOCK_DGRAM)
            for end in (stream, datagram):
                if family == socket.AF_INET6:
                    end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                end.bind((anywhere, port))
                end.setblocking(False)
                made.append(end)
            stream.listen(1024)
    return made


def _serve(selector: selectors.BaseSelector, ended: threading.Event) -> None:
    while not ended.is_set():
        for key, _ in selector.select(0.1):
            end = key.fileobj
            assert isinstance(end, socket.socket)
            try:
                if end.type == socket.SOCK_STREAM:
                    end.accept()[0].close()
                else:
                    data, caller = end.recvfrom(100)
                    end.sendto(data, caller)
            except BlockingIOError:
                continue  # the client went, or another event of the same packet
