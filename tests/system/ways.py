"""Whether packets pass between pods: all ways between all of them, tried at once.

In come pods and, for each way, whether it must be open; out come the ways that are not as they must
be. An open one may take its time; a closed one has had as long as the slowest open one, and a
moment more. Must not know why.
"""

import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import addresses
from tests.system.shouting import Ear, Mouth, said

MOMENT = 0.3
"""Seconds a way that must be closed is given beyond what the others took."""

Family = Literal[4, 6]


class Way(NamedTuple):
    """From one pod to another; without a port by ICMP."""

    source: str
    target: str
    protocol: Literal["tcp", "udp", "icmp"]
    port: int = 0


Verdicts = Mapping[Way, bool]


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways between some pods, over one family of addresses."""

    pods: Mapping[str, Pod]
    family: Family

    def wrong(self, ways: Verdicts) -> list[str]:
        """List the ways that are not as they must be."""
        found: dict[Way, bool] = {}
        for protocol, try_all in (("udp", self._heard), ("tcp", self._met), ("icmp", self._pinged)):
            found |= try_all({way: must for way, must in ways.items() if way.protocol == protocol})
        differ = [way for way, must in ways.items() if found[way] != must]
        return [f"{' '.join(map(str, way))} is {_word(found[way])}" for way in differ]

    def _at(self, name: str) -> str:
        return addresses(self.pods[name])[0 if self.family == 4 else 1]

    def _heard(self, ways: Verdicts) -> dict[Way, bool]:
        with ExitStack() as doors:
            ears = {
                (target, port): doors.enter_context(Ear(self.pods[target].namespace, port))
                for target, port in {(way.target, way.port) for way in ways}
            }
            mouths = [
                doors.enter_context(Mouth(self.pods[source], [self._at(target)], (port,)))
                for source, target, _, port in ways
            ]

            def found() -> dict[Way, bool]:
                for mouth in mouths:
                    mouth.say()
                time.sleep(0.05)
                heard = {place: ear.heard() for place, ear in ears.items()}
                texts = {way: said(way.source, self._at(way.target)) for way in ways}
                return {way: text in heard[way.target, way.port] for way, text in texts.items()}

            return _settled(found, ways)

    def _met(self, ways: Verdicts) -> dict[Way, bool]:
        with ExitStack() as doors:
            for target, port in {(way.target, way.port) for way in ways}:
                doors.enter_context(_server(self.pods[target], port))
            clients = {
                way: doors.enter_context(
                    _client(self.pods[way.source], self._at(way.target), way.port)
                )
                for way in ways
            }
            return _settled(lambda: {way: _met(client) for way, client in clients.items()}, ways)

    def _pinged(self, ways: Verdicts) -> dict[Way, bool]:
        def ping(way: Way) -> bool:
            return self.pods[way.source].ping(self._at(way.target)) is not None

        with ThreadPoolExecutor(8) as many:
            found = dict(zip(ways, many.map(ping, ways), strict=True))
        late = [way for way, must in ways.items() if must and not found[way]]
        return {**found, **{way: any(ping(way) for _ in range(5)) for way in late}}


def _settled(look: Callable[[], dict[Way, bool]], ways: Verdicts) -> dict[Way, bool]:
    """Look until every way that must be open is, and once more a moment later."""

    def all_open() -> bool:
        found = look()
        return all(found[way] for way, must in ways.items() if must)

    with suppress(TimeoutError):  # which ones are closed is seen below
        eventually(all_open, "what is allowed passes", within=10)
    time.sleep(MOMENT)
    return look()


def _server(pod: Pod, port: int) -> socket.socket:
    server = pod.namespace.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM))
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("::", port))
    server.listen(64)
    return server


def _client(pod: Pod, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = pod.namespace.call(lambda: socket.socket(family, socket.SOCK_STREAM))
    client.setblocking(False)
    with suppress(BlockingIOError):
        client.connect((address, port))
    return client


def _met(client: socket.socket) -> bool:
    with suppress(OSError):
        client.getpeername()
        return True
    return False


def _word(is_open: bool) -> str:
    return "open" if is_open else "closed"
