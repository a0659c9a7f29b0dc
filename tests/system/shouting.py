"""Datagrams to a pod that is not there yet, and ears that are open before it has an address.

A `Shouting` sends from some pods to the addresses a coming pod will have; an `Ear` hears what comes
into a namespace from its first moment. Must not know what is allowed.
"""

import re
import socket
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Self

from tests.bed.netns import Namespace
from tests.bed.pods import IFNAME, Pod
from tests.bed.waiting import eventually

INTERVAL = 0.005
"""Seconds between two rounds of datagrams."""


class Ear:
    """Hears the datagrams to a port of a namespace, whatever address it will have."""

    def __init__(self, namespace: Namespace, port: int) -> None:
        self._heard: set[str] = set()
        self._door = namespace.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
        self._door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self._door.bind(("::", port))
        self._door.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()

    def heard(self) -> set[str]:
        """Return who has been heard until now, and over what."""
        with suppress(BlockingIOError):
            while True:
                self._heard.add(self._door.recv(64).decode())
        return set(self._heard)


class Mouth:
    """Sends datagrams from a pod to ports of some addresses."""

    def __init__(self, pod: Pod, targets: Iterable[str], ports: tuple[int, ...]) -> None:
        self._name = pod.name
        self._where = [
            (_door(pod, address), address, port) for address in targets for port in ports
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for door, _address, _port in self._where:
            door.close()

    def say(self) -> None:
        """Send one datagram to each."""
        for door, address, port in self._where:
            with suppress(OSError):  # nobody there yet: it is said again
                door.sendto(said(self._name, address).encode(), (address, port))


class Shouting:
    """While it is entered, peers send to addresses, whether anybody has them or not."""

    def __init__(self, peers: list[Pod], targets: Iterable[str], ports: tuple[int, ...]) -> None:
        with ExitStack() as mouths:
            self._mouths = [mouths.enter_context(Mouth(peer, targets, ports)) for peer in peers]
            self._opened = mouths.pop_all()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._opened.close()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL):
            for mouth in self._mouths:
                mouth.say()


def said(name: str, address: str) -> str:
    """Return what a pod of that name says to an address."""
    return f"{name} over IPv{6 if ':' in address else 4}"


def neighbour(peer: Pod, address: str) -> str:
    """Return the MAC address that a pod finds for an address."""
    eventually(lambda: peer.ping(address), f"{peer.name} reaches {address}")
    shown = peer.namespace.run(["ip", "neigh", "show", "to", address, "dev", IFNAME]).stdout
    found = re.search(r"lladdr (\S+)", shown)
    assert found, shown
    return found[1]


def remember(peer: Pod, address: str, mac: str) -> None:
    """Have a pod take a MAC address for that of an address, and ask nobody."""
    words = ["to", address, "lladdr", mac, "dev", IFNAME, "nud", "permanent"]
    peer.namespace.run(["ip", "neigh", "replace", *words])


def _door(pod: Pod, address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    door = pod.namespace.call(lambda: socket.socket(family, socket.SOCK_DGRAM))
    door.setblocking(False)
    return door
