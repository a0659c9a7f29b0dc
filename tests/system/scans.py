"""A scan of management ports from a pod: which of them a packet of the pod reaches.

In come a pod and the places to listen at; out come the ports reached, by an answer or by what was
heard there. Must not know what may be reached.
"""

import asyncio
import ctypes
import errno
import selectors
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from core import keys
from objdb.api import Change, Put
from state import codec
from state.records import ServiceInstance
from tests.bed.cluster import Bed
from tests.bed.netns import Namespace
from tests.bed.pods import Pod
from tests.bed.store import client
from tests.bed.waiting import PATIENCE

SILENCE = 0.7 * PATIENCE
"""Seconds without an answer after which a port counts as closed."""
TCP = (9999, 9001, 9090, 9002, 9003, 6633, 6634, 6640, 2379, 2380, 4789)
DATAGRAMS = socket.SOCK_DGRAM
SAID = b"let me in"
ATTACH_FILTER = 26
"""SO_ATTACH_FILTER, which Python has no name for."""
UDP = (4789, 9090, 9999, 2379, 2380)


def register_master(bed: Bed, address: str) -> None:
    """Have the store know of a master beyond the router of the VLANs."""
    name = keys.service(keys.SERVICE_NETMASTER, address, 9999)
    value = codec.encode(
        ServiceInstance(service=keys.SERVICE_NETMASTER, address=address, port=9999)
    )

    async def put() -> None:
        store = client(bed.store)
        try:
            await store.commit([Change((), (Put(name, value),))])
        finally:
            await store.close()

    bed.fabric.namespace.call(lambda: asyncio.run(put()))


@dataclass(frozen=True, slots=True)
class Scan:
    """A pod, and the addresses by which it may reach what manages the cluster."""

    pod: Pod
    ears: Mapping[tuple[str, int], socket.socket]

    def reached(self, *addresses: str) -> set[str]:
        """Return all ports that a packet of the pod reaches: an answer, a refusal, or an ear."""
        found = {
            f"tcp {address} {port}" for address, port in dialled(self.pod.namespace, addresses)
        }
        with ExitStack() as mouths:
            for address in addresses:
                mouth = mouths.enter_context(opened(self.pod.namespace, address, DATAGRAMS))
                for port in UDP:
                    with suppress(OSError):  # there may be no way
                        mouth.sendto(SAID, (address, port))
            with selectors.DefaultSelector() as heard:
                for (address, port), ear in self.ears.items():
                    heard.register(ear, selectors.EVENT_READ, f"udp {address} {port}")
                while events := heard.select(SILENCE):
                    for key, _ in events:
                        assert isinstance(key.fileobj, socket.socket)
                        key.fileobj.recv(64)
                        found.add(key.data)
        return found


def opened(
    namespace: Namespace, address: str, kind: socket.SocketKind, protocol: int = 0
) -> socket.socket:
    """Return a socket of an address's family."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return namespace.call(lambda: socket.socket(family, kind, protocol))


def listening(namespace: Namespace, address: str, port: int) -> socket.socket:
    """Return a socket that hears what a scan says to a port of an address.

    Where the host's kernel has the port, as it has that of tunnels by its own datapath, it is one
    that gets copies.
    """
    ear = opened(namespace, address, DATAGRAMS)
    try:
        ear.bind((address, port))
    except OSError as exc:
        ear.close()
        if exc.errno != errno.EADDRINUSE:
            raise
        ear = opened(namespace, address, socket.SOCK_RAW, socket.IPPROTO_UDP)
        ear.bind((address, 0))
        hear_alone(ear, port, 8 + len(SAID))
    return ear


def hear_alone(raw: socket.socket, port: int, length: int) -> None:
    """Have a raw socket of UDP hear nothing but datagrams to a port that are so long."""
    head = 0 if raw.family == socket.AF_INET6 else 20  # by IPv4 such a socket has its head too
    load, same, end = 0x28, 0x15, 0x06
    steps = [
        (load, 0, 0, head + 2),
        (same, 0, 3, port),
        (load, 0, 0, head + 4),
        (same, 0, 1, length),
        (end, 0, 0, 0xFFFF),
        (end, 0, 0, 0),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    named = struct.pack("HL", len(steps), ctypes.addressof(program))
    raw.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, named)


def dialled(source: Namespace, addresses: tuple[str, ...]) -> set[tuple[str, int]]:
    """Return the TCP ports that answer, be it by a refusal; all are asked at once."""
    found: set[tuple[str, int]] = set()
    with ExitStack() as stack:
        ready = stack.enter_context(selectors.DefaultSelector())
        for address in addresses:
            for port in TCP:
                client = stack.enter_context(opened(source, address, socket.SOCK_STREAM))
                client.setblocking(False)
                if client.connect_ex((address, port)) not in (0, errno.EINPROGRESS):
                    continue  # there is no way at all
                ready.register(client, selectors.EVENT_WRITE, (address, port))
        while ready.get_map() and (events := ready.select(SILENCE)):
            for key, _ in events:
                ready.unregister(key.fileobj)
                assert isinstance(key.fileobj, socket.socket)
                outcome = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if outcome in (0, errno.ECONNREFUSED):  # else a router's word that there is no way
                    found.add(key.data)
    return found


@contextmanager
def scanning(pod: Pod, places: Mapping[str, Namespace]) -> Iterator[Scan]:
    """Listen for datagrams at the management ports of addresses while a pod asks."""
    with ExitStack() as stack:
        ears = {}
        for address, namespace in places.items():
            for port in UDP:
                ears[address, port] = stack.enter_context(listening(namespace, address, port))
        yield Scan(pod, ears)


@contextmanager
def unguarded(bed: Bed) -> Iterator[None]:
    """Have all agents run without the guard."""
    restart(bed, "--no-pod-guard")
    try:
        yield
    finally:
        restart(bed)


def restart(bed: Bed, *more: str) -> None:
    """Restart all agents with other flags."""
    for agent in bed.agents:
        agent.kill()
        agent.command[:] = [*(word for word in agent.command if word != "--no-pod-guard"), *more]
        agent.spawn()
    for agent in bed.agents:
        agent.await_ready()
