"""A netmaster on an etcd of its own, for the benchmarks that ask over HTTP."""

import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path

import uvloop

from bench.table import Row
from tests.bed.etcd import Etcd
from tests.bed.master import Master

Measure = Callable[[Master, str], Coroutine[None, None, list[Row]]]


def on_a_netmaster(measure: Measure) -> list[Row]:
    """Return the rows of `measure`, given a fresh netmaster and the address of its etcd.

    Both are private to the measurement, and end with it.
    """
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        etcd = Etcd(Path(directory))
        etcd.start()
        master = Master(Path(directory), etcd)
        try:
            master.start()
            return uvloop.run(measure(master, etcd.url))
        finally:
            master.kill()
            etcd.kill()
