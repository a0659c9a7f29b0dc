"""A netmaster on a store of its own, for the benchmarks that ask over HTTP."""

import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path

import uvloop

from bench.table import Row
from tests.bed.master import Master
from tests.bed.store import STORES, Store

Measure = Callable[[Master, Store], Coroutine[None, None, list[Row]]]


def on_a_netmaster(measure: Measure, kind: str = "etcd") -> list[Row]:
    """Return the rows of `measure`, given a fresh netmaster and its store.

    Both are private to the measurement, and end with it.
    """
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        store = STORES[kind](Path(directory))
        store.start()
        master = Master(Path(directory), store)
        try:
            master.start()
            return uvloop.run(measure(master, store))
        finally:
            master.kill()
            store.kill()
