"""The stores of the contract suite: each provides clients of one shared, empty store."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from objdb.api import Backend
from objdb.memory import Faults, MemoryBackend, MemoryStore
from tests.bed.store import STORES, Store
from tests.bed.store import client as client_of

Client = Callable[[], Backend]

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
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Give a maker of clients of one store."""
    async with AsyncExitStack() as opened:
        make = _maker(request)

        def client() -> Backend:
            backend = make()
            opened.push_async_callback(backend.close)
            return backend

        yield client


def _maker(request: pytest.FixtureRequest) -> Client:
    if request.param in STORES:
        running: Callable[[str], Store] = request.getfixturevalue("running")
        server = running(request.param)
        return lambda: client_of(server)
    store = MemoryStore()
    coalesce = request.param == "memory-coalescing"
    return lambda: MemoryBackend(store, Faults(coalesce=coalesce, silent_rewrites=coalesce))


@pytest.fixture
async def store(client: Client) -> Backend:
    """Give one client."""
    return client()
