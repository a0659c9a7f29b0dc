"""A netmaster on a store of its own, for the benchmarks that ask over HTTP."""

import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final, TypeVar

import uvloop

from tests.bed.identities import Identities
from tests.bed.master import Master
from tests.bed.store import STORES, Store

HOST: Final = "h1"
"""The host whose agent asks for endpoints; its identity where there is TLS."""

R = TypeVar("R")
Measure = Callable[[Master, Store], Coroutine[None, None, R]]


def on_a_netmaster(measure: Measure[R], kind: str = "etcd", *, secure: bool = False) -> R:
    """Return what `measure` does, given a fresh netmaster and its store.

    Both are private to the measurement, and end with it. `secure`: with TLS.
    """
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        store = STORES[kind](Path(directory))
        store.start()
        master = _secured(Path(directory), store) if secure else Master(Path(directory), store)
        try:
            master.start()
            return uvloop.run(measure(master, store))
        finally:
            master.kill()
            store.kill()


def _secured(directory: Path, store: Store) -> Master:
    identities = Identities(directory / "tls", lambda *_: None)
    identities.initialize()
    identities.issue("master", "master", "127.0.0.1")
    identities.issue("admin", "admin")
    identities.issue("agent", HOST, "127.0.0.1")
    return Master(directory, store, identities=identities)
