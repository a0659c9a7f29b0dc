"""Traffic that must not be interrupted: pings without a pause, judged by their sequence numbers.

In come pairs of pods; a `Stream` runs until it is stopped and says which of its packets were never
answered. Must not know what is done to the cluster meanwhile.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bed.pods import Pod
from tests.bed.waiting import eventually

INTERVAL = 0.02


class Outcome(NamedTuple):
    """How many packets were sent, and the numbers of those that got no answer."""

    sent: int
    lost: list[int]


class Stream:
    """One pod pings another, fifty times a second."""

    def __init__(self, source: Pod, target: Pod) -> None:
        self.name = f"{source.name} to {target.name}"
        self._log = Path(f"{source.host.dir}/ping-{source.name}-{target.name}.log")
        self._log.unlink(missing_ok=True)
        command = ["ping", "-n", "-O", "-i", str(INTERVAL), target.address]
        self._process = source.namespace.popen(command, log=self._log)

    def answered(self) -> int:
        """Say how many packets have been answered so far."""
        return len(self._numbers())

    def sent(self) -> int:
        """Say how many packets have been sent, as far as their fate is known."""
        return max(map(int, re.findall(r"icmp_seq=(\d+)", self._log.read_text())), default=0)

    def goes_on(self, packets: int = 10) -> None:
        """Wait until that many more packets have been answered."""
        wanted = self.answered() + packets
        eventually(lambda: self.answered() >= wanted, f"{self.name}: {packets} more answers")

    def stop(self) -> Outcome:
        """End it; a packet sent in the last moment may be without its answer."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(10)
        found = re.search(r"(\d+) packets transmitted", self._log.read_text())
        assert found, self._log.read_text()[-500:]
        sent = int(found[1])
        lost = set(range(1, sent)) - self._numbers()
        return Outcome(sent, sorted(lost))

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()

    def _numbers(self) -> set[int]:
        return {int(number) for number in re.findall(r"icmp_seq=(\d+) ttl=", self._log.read_text())}


@contextmanager
def streams(*pairs: tuple[Pod, Pod]) -> Iterator[list[Stream]]:
    """Run a stream for each pair, all under way when the body begins, stopped at its end."""
    running: list[Stream] = []
    try:
        for source, target in pairs:
            eventually(partial(source.ping, target.address), f"{source.name} reaches {target.name}")
            running.append(Stream(source, target))
        for stream in running:
            stream.goes_on()
        yield running
    finally:
        for stream in running:
            stream.kill()


@contextmanager
def unbroken(*pairs: tuple[Pod, Pod]) -> Iterator[list[Stream]]:
    """Run a stream for each pair during the body and a little longer; no packet may be lost."""
    with streams(*pairs) as running:
        yield running
        for stream in running:
            stream.goes_on()
        outcomes = {stream.name: stream.stop() for stream in running}
    for name, outcome in outcomes.items():
        lost = f"{len(outcome.lost)} lost {outcome.lost[:20]}"
        print(f"{name}: {outcome.sent} sent, {lost}")  # noqa: T201 - the figures of a failed test
    assert not [(name, outcome) for name, outcome in outcomes.items() if outcome.lost]
