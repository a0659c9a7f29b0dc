"""A continuous watch of what must pass between pods, and of what must never pass.

In come lanes: from a pod to an address and UDP port of another. Datagrams with numbers go down all
of them, without a pause, from one thread: one that comes out of a forbidden lane is a failure
whenever it happens; those missing from the open lanes are counted. Must not know what is done to
the cluster meanwhile.
"""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.bed.pods import Pod
from tests.bed.waiting import eventually

INTERVAL = 0.04
"""Seconds between two datagrams of a lane."""
FIRST_PORT = 7100
FEW = 5
"""Datagrams by which a lane shows that it is open."""
LINGER = 10.0
"""Seconds a datagram may be on its way."""


class Lane(NamedTuple):
    """One way through the cluster: who sends, to which address and port of whom."""

    source: Pod
    target: Pod
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.source.name} to {self.target.name} ({self.address} port {self.port})"


@dataclass(slots=True)
class _Traffic:
    """What goes down a lane: when each number was sent, and when it came out."""

    lane: Lane
    out: socket.socket
    sent: list[float] = field(default_factory=list)
    arrived: dict[int, float] = field(default_factory=dict)
    latest: int = -1
    counted_from: int = 0

    def send(self, mark: int) -> None:
        number = len(self.sent)
        self.sent.append(time.monotonic())
        try:
            self.out.sendto(b"%d %d" % (mark, number), (self.lane.address, self.lane.port))
        except OSError:
            return  # what its own host refuses to send does not arrive: it counts as lost

    def take(self, number: int) -> None:
        self.arrived[number] = time.monotonic()
        self.latest = max(self.latest, number)

    def opened_after(self, moment: float) -> float:
        return min(at for number, at in tuple(self.arrived.items()) if self.sent[number] >= moment)

    def missing(self, before: int | None = None) -> int:
        last = len(self.sent) if before is None else before
        return sum(number not in self.arrived for number in range(self.counted_from, last))


class Watcher:
    """Sends and receives from the moment it is made until `stop`."""

    def __init__(
        self,
        passing: Sequence[Lane],
        forbidden: Sequence[Lane] = (),
        *,
        interval: float = INTERVAL,
    ) -> None:
        self._interval = interval
        with ExitStack() as doors:
            lanes = [*passing, *forbidden]
            self._all = [_Traffic(lane, doors.enter_context(_sender(lane))) for lane in lanes]
            ends = {(lane.target.name, lane.address, lane.port): lane for lane in lanes}
            self._ends = [doors.enter_context(_receiver(lane)) for lane in ends.values()]
            self._doors = doors.pop_all()
        self._passing, self._forbidden = self._all[: len(passing)], self._all[len(passing) :]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Send no more, give what is on its way a moment to arrive, and end."""
        self._ended.set()
        self._thread.join()
        with self._doors:
            deadline = time.monotonic() + LINGER
            while self.lost() and time.monotonic() < deadline:
                time.sleep(INTERVAL)
                self._receive()
            self._receive()

    def goes_on(self, seconds: float = 0.0) -> None:
        """Wait that long, then until every open lane has passed some of what is sent since."""
        time.sleep(seconds)
        begin = [len(one.sent) for one in self._passing]

        def closed() -> list[str]:
            lanes = zip(self._passing, begin, strict=True)
            return [str(one.lane) for one, first in lanes if one.latest < first + FEW]

        try:
            eventually(lambda: not closed(), "all lanes are open")
        except TimeoutError as exc:
            raise TimeoutError(f"{exc}, but for {closed()}") from exc

    def count(self) -> None:
        """Count what is lost from now on."""
        for one in self._passing:
            one.counted_from = len(one.sent)

    def lost(self) -> dict[str, int]:
        """Count the datagrams missing from each open lane."""
        found = {str(one.lane): one.missing() for one in self._passing}
        return {lane: count for lane, count in found.items() if count}

    def lost_until_now(self) -> dict[str, int]:
        """Wait until later datagrams have arrived, and count those missing from each open lane."""
        begin = [len(one.sent) for one in self._passing]
        self.goes_on()
        pairs = zip(self._passing, begin, strict=True)
        found = {str(one.lane): one.missing(before) for one, before in pairs}
        return {lane: count for lane, count in found.items() if count}

    def leaked(self) -> dict[str, int]:
        """Count the datagrams that came out of each forbidden lane."""
        return {str(one.lane): len(one.arrived) for one in self._forbidden if one.arrived}

    def figures(self) -> str:
        """Say in a line how many datagrams were sent, lost and let through."""
        sent, lost = sum(len(one.sent) for one in self._all), self.lost().values()
        most = max(lost, default=0)
        return f"{sent} sent, lost {sum(lost)}, {most} in one lane; leaked {self.leaked()}"

    def back(self, what: str) -> None:
        """Wait until all open lanes are open again; print how long that took from now on."""
        begin = time.monotonic()
        self.goes_on()
        opened = [one.opened_after(begin) - begin for one in self._passing]
        print(f"after {what} all lanes were open within {max(opened):.2f} s")  # noqa: T201 - measured

    def _run(self) -> None:
        while not self._ended.wait(self._interval):
            for mark, one in enumerate(self._all):
                one.send(mark)
            self._receive()

    def _receive(self) -> None:
        for end in self._ends:
            with suppress(BlockingIOError):
                while True:
                    mark, number = map(int, end.recv(64).split())
                    self._all[mark].take(number)


@contextmanager
def watching(
    passing: Sequence[Lane], forbidden: Sequence[Lane] = (), *, interval: float = INTERVAL
) -> Iterator[Watcher]:
    """Watch during the body; nothing may have come out of a forbidden lane."""
    watcher = Watcher(passing, forbidden, interval=interval)
    try:
        watcher.goes_on()
        watcher.count()
        yield watcher
        watcher.goes_on()
    finally:
        watcher.stop()
        print(watcher.figures())  # noqa: T201 - the figures of a failed test
    assert watcher.leaked() == {}, watcher.figures()


@contextmanager
def unbroken(
    passing: Sequence[Lane], forbidden: Sequence[Lane] = (), *, interval: float = INTERVAL
) -> Iterator[Watcher]:
    """Watch during the body; nothing may be lost either."""
    with watching(passing, forbidden, interval=interval) as watcher:
        yield watcher
    assert watcher.lost() == {}, watcher.lost()


def both_ways(*pairs: tuple[Pod, Pod]) -> list[Lane]:
    """Return the lanes between the pods of each pair, every one with a port of its own."""
    ways = [*pairs, *((target, source) for source, target in pairs)]
    return [
        Lane(source, target, target.address, FIRST_PORT + number)
        for number, (source, target) in enumerate(ways)
    ]


def _receiver(lane: Lane) -> socket.socket:
    def bound() -> socket.socket:
        door = socket.socket(_family(lane), socket.SOCK_DGRAM)
        door.bind((lane.address, lane.port))
        door.setblocking(False)
        return door

    return lane.target.namespace.call(bound)


def _sender(lane: Lane) -> socket.socket:
    door = lane.source.namespace.call(lambda: socket.socket(_family(lane), socket.SOCK_DGRAM))
    door.setblocking(False)
    return door


def _family(lane: Lane) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in lane.address else socket.AF_INET
