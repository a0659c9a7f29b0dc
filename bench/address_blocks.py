"""CNI ADD with addresses that the host holds ahead, beside ADD that asks netmaster (ADR 29).

Two hosts of one cluster, of which the first holds addresses, take turns. What is timed is spawn to
exit, as in `bench.cni`, whose link to netmaster and the store both hosts have.
"""

import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from bench.cni import NETWORK, manage, timed_call
from bench.table import Row, at, show
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import new_sandbox
from tests.bed.waiting import eventually
from tests.system.blocks import held_ahead

CALLS: Final = {1: 60, 10: 100}
"""How many calls are measured on each host, by how many are made at once."""
SIZE: Final = 32


def rows() -> Iterable[Row]:
    """Measure on two simulated hosts."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=2)
        bed.agents[0].command += ["--address-blocks", str(SIZE)]
        bed.start()
        try:
            manage(bed)
            bed.netctl("net", "create", *NETWORK)
            for host in bed.hosts:
                bed.add_pod(host, f"first-{host.label}")
            for at_once, calls in CALLS.items():
                yield from _rows(bed, at_once, calls)
        finally:
            bed.stop()


def _rows(bed: Bed, at_once: int, calls: int) -> Iterator[Row]:
    times: dict[str, list[float]] = {host.label: [] for host in bed.hosts}
    for turn in range(calls // at_once):
        for host in sorted(bed.hosts, key=lambda one: one.label, reverse=turn % 2 == 0):
            if host is bed.hosts[0]:
                eventually(lambda: len(held_ahead(bed, bed.hosts[0])) > SIZE // 2, "a supply")
            times[host.label] += host.namespace.call(partial(_adds, bed, host, at_once))
    ahead, asked = (sorted(times[host.label]) for host in bed.hosts)
    crowd = "one at a time" if at_once == 1 else f"{at_once} at once"
    for name, rank in (("p50", 0.50), ("p99", 0.99)):
        ours, reference = at(ahead, rank), at(asked, rank)
        yield Row(
            what=f"CNI ADD {name}, {crowd}, from a block",
            ours=ours,
            unit="ms",
            reference=reference,
            ratio=reference / ours,
            note=f"n={calls}; reference: netmaster is asked",
        )


def _adds(bed: Bed, host: Host, at_once: int) -> list[float]:
    plugin, conf = bed.runtime.plugin, bed.conf(host)
    sandboxes = [new_sandbox("pod", Namespace(fresh_name(f"b{n}"))) for n in range(at_once)]
    try:
        with ThreadPoolExecutor(at_once) as pool:
            took = list(pool.map(partial(timed_call, plugin, conf, "ADD"), sandboxes))
            list(pool.map(partial(timed_call, plugin, conf, "DEL"), sandboxes))
        return took
    finally:
        for sandbox in sandboxes:
            sandbox.namespace.delete()


if __name__ == "__main__":
    show(rows())
