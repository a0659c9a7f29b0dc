"""Pods per second through a real containerd, beside Debian's `bridge` + `host-local` plugins.

The whole system runs on one simulated host, and two containerds, each with a network configuration.
Pods are run by CRI, as kubelet does: one, ten or fifty at once, in turns. What is timed is all that
RunPodSandbox does, so most of it is containerd, its shim and runc.
"""

import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.cni import NETWORK, bridge_conf, manage
from bench.table import Row, show
from tests.bed.cluster import Bed
from tests.bed.containerd import Containerd
from tests.bed.cri import Cri

RUNS = {1: 10, 10: 30, 50: 50}
"""How many pods are measured, by how many are run at once."""


def rows() -> Iterable[Row]:
    """Measure on one simulated host."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=1).start()
        try:
            manage(bed)
            bed.netctl("net", "create", *NETWORK)
            ours = bed.conf(bed.hosts[0])
            theirs = bridge_conf(Path(directory))
            with containerd(bed, "ours", ours) as one, containerd(bed, "theirs", theirs) as two:
                yield from _measure({"ours": one, "theirs": two})
        finally:
            bed.stop()


@contextmanager
def containerd(bed: Bed, name: str, conf: dict[str, Any]) -> Iterator[Cri]:
    """Run a containerd with a network configuration; yield a client of it."""
    (host,) = bed.hosts
    shared = {key: conf[key] for key in ("cniVersion", "name")}
    plugin = {key: value for key, value in conf.items() if key not in shared}
    runtime = Containerd(host.dir / name, host.namespace, bed.runtime.plugin)
    runtime.prepare({**shared, "plugins": [plugin]})
    try:
        runtime.start()
        runtime.load_image()
        with runtime.client() as cri:
            yield cri
    finally:
        runtime.destroy()


def _measure(clients: dict[str, Cri]) -> Iterator[Row]:
    _turns(clients, 1, 2)  # warm
    for at_once, pods in RUNS.items():
        rates = _turns(clients, at_once, pods)
        yield Row(
            what=f"pods by containerd, {at_once} at once",
            ours=rates["ours"],
            unit="1/s",
            reference=rates["theirs"],
            ratio=rates["ours"] / rates["theirs"],
            note=f"n={pods}; reference: bridge + host-local",
        )


def _turns(clients: dict[str, Cri], at_once: int, pods: int) -> dict[str, float]:
    """Run as many pods by each, in turns; return the pods per second."""
    seconds = dict.fromkeys(clients, 0.0)
    with ThreadPoolExecutor(at_once) as pool:
        for turn in range(pods // at_once):
            for who in sorted(clients, reverse=turn % 2 == 0):
                began = time.perf_counter()
                made = list(pool.map(partial(_run, clients[who]), range(at_once)))
                seconds[who] += time.perf_counter() - began
                list(pool.map(partial(_end, clients[who]), made))
    return {who: pods / took for who, took in seconds.items()}


def _run(cri: Cri, number: int) -> str:
    return cri.run(f"p{number}", str(uuid.uuid4()))


def _end(cri: Cri, pod: str) -> None:
    cri.stop(pod)
    cri.remove(pod)


if __name__ == "__main__":
    show(rows())
