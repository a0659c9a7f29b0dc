"""The stores of the contract suite: each provides clients of one shared, empty store."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from objdb.api import Backend
from objdb.memory import Faults, MemoryBackend, MemoryStore
from tests.bed.store import STORES, Store
from tests.bed.store import client as client_of

Client = Callable[[], Backend]


@dataclass(frozen=True, slots=True)
class Served:
    """A store: makes clients, saves its state, and goes back to a saved one."""

    client: Client
    save: Callable[[], Any]
    restore: Callable[..., None]


_roots = (f"/test/{number}/" for number in itertools.count(1))


@pytest.fixture
def root() -> str:
    """Give a prefix that no other test uses."""
    return next(_roots)


@pytest.fixture(scope="module")
def running(bed_dirs: Iterator[Path]) -> Iterator[Callable[[str], Store]]:
    """Give what starts a store of a kind when it is first asked for."""
    started: dict[str, Store] = {}

    def running(kind: str) -> Store:
        if kind not in started:
            directory = next(bed_dirs)
            directory.mkdir()
            started[kind] = STORES[kind](directory)
            started[kind].start()
        return started[kind]

    yield running
    for store in started.values():
        store.kill()


@pytest.fixture(
    params=[
        "memory",
        "memory-coalescing",
        pytest.param("etcd", marks=pytest.mark.store),
        pytest.param("consul", marks=pytest.mark.store),
    ]
)
def served(request: pytest.FixtureRequest) -> Served:
    """Give a store."""
    if request.param in STORES:
        running: Callable[[str], Store] = request.getfixturevalue("running")
        server = running(request.param)
        return Served(lambda: client_of(server), server.save, server.restore)
    store = MemoryStore()
    coalesce = request.param == "memory-coalescing"
    return Served(
        lambda: MemoryBackend(store, Faults(coalesce=coalesce, silent_rewrites=coalesce)),
        store.save,
        store.restore,
    )


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    """Give a maker of clients of the store."""
    async with AsyncExitStack() as opened:

        def client() -> Backend:
            backend = served.client()
            opened.push_async_callback(backend.close)
            return backend

        yield client


@pytest.fixture
async def store(client: Client) -> Backend:
    """Give one client."""
    return client()
