"""What a flood into a rule with `log` costs another pair of pods on the same hosts.

Two pods measure their throughput by iperf3. Beside them, on the same hosts, another pod sends
datagrams from many ports into a rule that denies them: one without `log`, one with it, and none,
by turns. Open vSwitch handles all packets on the processors that also make them.
"""

import socket
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from bench.table import Row, show
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.traffic import throughput
from tests.bed.waiting import eventually, repeating

ROUNDS = 7
SECONDS = 3
SENDERS = 200
FLOOD = 5000
"""Packets a second."""

PAUSE = 0.01
PLAIN, LOGGED = 7001, 7002
NETWORK = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")


def rows() -> Iterable[Row]:
    """Measure on two simulated hosts."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=2).start()
        try:
            bed.netctl("net", "create", *NETWORK)
            bed.netctl("policy", "create", "shut")
            for number, port, words in (("1", PLAIN, []), ("2", LOGGED, ["--log"])):
                deny = ["-j", "deny", "-l", "udp", "-P", str(port), "-d", "in", *words]
                bed.netctl("policy", "rule-add", *deny, "shut", number)
            bed.netctl("group", "create", "-p", "shut", "default-net", "shut")
            yield from _table(bed)
        finally:
            bed.stop()


def _table(bed: Bed) -> Iterator[Row]:
    sender, receiver = (bed.add_pod(host, f"speed-{host.label}") for host in bed.hosts)
    source = bed.add_pod(bed.hosts[0], "source")
    target = bed.add_pod(bed.hosts[1], "target", group="shut")
    for one, other in ((sender, receiver), (source, target)):
        eventually(partial(one.ping, other.address), "the pods reach each other")
    found: dict[int, list[float]] = {0: [], PLAIN: [], LOGGED: []}
    for _ in range(ROUNDS):
        for port, speeds in found.items():
            with _flood(source, target, port) if port else nullcontext():
                speeds.append(
                    throughput(
                        sender.namespace, receiver.namespace, receiver.address, seconds=SECONDS
                    )
                )
    quiet, plain, logged = (statistics.median(found[port]) for port in found)
    note = f"median of {ROUNDS} times {SECONDS} s; flood of {FLOOD} packets a second"
    yield Row(
        what="TCP throughput beside a flood into a rule with log",
        ours=logged,
        unit="Mbit/s",
        reference=plain,
        ratio=logged / plain,
        note=f"{note}; reference: into a rule without log; without a flood {quiet:.0f}",
    )


@contextmanager
def _flood(source: Pod, target: Pod, port: int) -> Iterator[None]:
    made = [source.namespace.call(_datagrams) for _ in range(SENDERS)]
    senders = cycle(made)

    def burst() -> None:
        for sender in islice(senders, int(FLOOD * PAUSE)):
            sender.sendto(b"flood", (target.address, port))

    try:
        with repeating(burst, PAUSE):
            yield
    finally:
        for one in made:
            one.close()


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


if __name__ == "__main__":
    show(rows())
