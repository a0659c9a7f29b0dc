"""`docker run --rm` on a network of ours, beside one of docker's own bridge driver.

The whole system runs in mode docker, with a real engine on one host. Containers run `true`; the two
networks take turns, one container or five at once. What is timed is docker's command line from
spawn to exit: create, connect, start, end, disconnect, remove. The engine writes no firewall rules
for its bridge here, which it does elsewhere.
"""

import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.cni import manage
from bench.table import Row, at, show
from tests.bed.cluster import Bed
from tests.bed.engines import Engine
from tests.bed.waiting import eventually

RUNS = {1: 40, 5: 60}
"""How many containers are measured on each network, by how many run at once."""
WARM_UP = 5
OURS, THEIRS = "ours", "bridge"
TARGET = 1.15

Times = dict[str, list[float]]
"""Milliseconds, by network."""


def rows() -> Iterable[Row]:
    """Measure on one simulated host."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=1, engines=()).start()
        try:
            manage(bed)
            engine = bed.engines[0]
            bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", OURS)
            listed = ("network", "ls", "--format", "{{.Name}}")
            eventually(lambda: OURS in engine.docker(*listed).split(), "docker has the network")
            engine.docker("network", "create", "--subnet", "10.21.0.0/16", f"docker-{THEIRS}")
            measure(engine, at_once=1, runs=WARM_UP)
            for at_once, runs in RUNS.items():
                yield from _table(at_once, measure(engine, at_once=at_once, runs=runs))
        finally:
            bed.stop()


def measure(engine: Engine, *, at_once: int, runs: int) -> Times:
    """Run so many containers on each network, and take turns in which comes first."""
    networks = {OURS: OURS, THEIRS: f"docker-{THEIRS}"}
    times: Times = {OURS: [], THEIRS: []}

    def run(network: str) -> float:
        began = time.perf_counter()
        engine.once(network, "true")
        return (time.perf_counter() - began) * 1000

    with ThreadPoolExecutor(at_once) as pool:
        for turn in range(runs // at_once):
            for who in sorted(networks, reverse=turn % 2 == 0):
                times[who] += pool.map(run, [networks[who]] * at_once)
    return times


def _table(at_once: int, times: Times) -> Iterator[Row]:
    crowd = "one at a time" if at_once == 1 else f"{at_once} at once"
    for name, rank in (("p50", 0.50), ("p99", 0.99)):
        ours, theirs = at(sorted(times[OURS]), rank), at(sorted(times[THEIRS]), rank)
        goal = f"; target ratio {1 / TARGET:.2f}" if name == "p50" else ""
        yield Row(
            what=f"docker run --rm {name}, {crowd}",
            ours=ours,
            unit="ms",
            reference=theirs,
            ratio=theirs / ours,
            note=f"n={RUNS[at_once]}{goal}; reference: docker's bridge",
        )


if __name__ == "__main__":
    show(rows())
