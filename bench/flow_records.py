"""What `netplugin --flow-records` costs: two clusters, with and without it, in turns.

Each has two simulated hosts and a pod on either. New connections a second and TCP throughput are
those of one client; the agent's processor time is that of the client's host at a steady rate of
new connections. All packets are handled by the processors that also make them.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.table import Row, show
from tests.bed.cluster import ROOT, Bed
from tests.bed.pods import Pod
from tests.bed.traffic import throughput
from tests.bed.waiting import eventually

ROUNDS = 5
SECONDS = 6.0
RATE, LONG = 250.0, 30.0
"""New connections a second while the agent's processor time is taken, and for how many seconds."""
PORT = 7000
NETWORK = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")


def rows() -> Iterable[Row]:
    """Measure on two clusters."""
    with ExitStack() as stack:
        pairs = {
            who: stack.enter_context(_pair(flags))
            for who, flags in (("on", ["--flow-records"]), ("off", []))
        }
        yield from _table(pairs)


@contextmanager
def _pair(flags: list[str]) -> Iterator["_Pair"]:
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=2, flags={"netplugin": flags})
        try:
            bed.start()
            bed.netctl("net", "create", *NETWORK)
            client, server = (bed.add_pod(host, f"end-{host.label}") for host in bed.hosts)
            eventually(partial(client.ping, server.address), "the pods know each other")
            words = server.namespace.enter
            serving = subprocess.Popen(
                [*words, *_program("serve", server.address, str(PORT))],
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            try:
                assert serving.stdout is not None
                assert serving.stdout.readline() == "ready\n"
                yield _Pair(bed, client, server)
            finally:
                serving.kill()
                serving.wait()
        finally:
            bed.stop()


def _program(*words: str) -> list[str]:
    return [sys.executable, "-m", "bench.connections", *words]


class _Pair:
    """A client and a server on two hosts."""

    def __init__(self, bed: Bed, client: Pod, server: Pod) -> None:
        self._bed, self._client, self._server = bed, client, server

    def dialled(self, rate: float = 0.0, seconds: float = SECONDS) -> float:
        """Return how many connections a second there were."""
        words = _program("dial", self._server.address, str(PORT), str(seconds), str(rate))
        done = self._client.namespace.run(words)
        return float(done.stdout)

    def speed(self) -> float:
        """Return the megabits a second of one stream."""
        ends = self._client.namespace, self._server.namespace
        return throughput(*ends, self._server.address, seconds=int(SECONDS))

    def agents_share(self) -> float:
        """Return what the client's agent takes of a processor for each thousand a second."""
        pid = self._bed.agents[0].pid
        before, began = _ticks(pid), time.monotonic()
        rate = self.dialled(RATE, LONG)
        took = (_ticks(pid) - before) / os.sysconf("SC_CLK_TCK")
        return 1000 * took / (time.monotonic() - began) / rate


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _table(pairs: Mapping[str, _Pair]) -> Iterator[Row]:
    note = f"median of {ROUNDS} times {SECONDS:g} s by turns; reference: without flow records"
    for what, unit, measure in (
        ("new TCP connections a second, one client", "1/s", _Pair.dialled),
        ("TCP throughput, pod to pod on another host", "Mbit/s", _Pair.speed),
    ):
        found = [{who: measure(pair) for who, pair in pairs.items()} for _ in range(ROUNDS)]
        on, off = (statistics.median(one[who] for one in found) for who in ("on", "off"))
        yield Row(what=what, ours=on, unit=unit, reference=off, ratio=on / off, note=note)
    shares = {who: pair.agents_share() for who, pair in pairs.items()}
    yield Row(
        what="agent's processors for 1000 new connections a second",
        ours=shares["on"],
        unit="",
        reference=shares["off"],
        note=f"measured at {RATE:g} a second; reference: without flow records",
    )


if __name__ == "__main__":
    show(rows())
