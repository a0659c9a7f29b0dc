"""The stores the contract is held against: each gives clients that share one empty store."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from objdb.access import Access
from objdb.api import Backend
from objdb.consul import ConsulBackend
from objdb.etcd import EtcdBackend
from objdb.memory import Faults, MemoryBackend, MemoryStore
from tests.bed.consul import Consul
from tests.bed.etcd import Etcd

Client = Callable[[], Backend]

_roots = (f"/test/{number}/" for number in itertools.count(1))


@pytest.fixture
def root() -> str:
    """Give a prefix that no other test uses."""
    return next(_roots)


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
    if request.param == "etcd":
        etcd: Etcd = request.getfixturevalue("etcd_session")
        access = Access(endpoints=(etcd.url.removeprefix("http://"),))
        return lambda: EtcdBackend(access)
    if request.param == "consul":
        consul: Consul = request.getfixturevalue("consul_session")
        reached = Access(endpoints=(consul.url.removeprefix("http://"),))
        return lambda: ConsulBackend(reached)
    store = MemoryStore()
    coalesce = request.param == "memory-coalescing"
    return lambda: MemoryBackend(store, Faults(coalesce=coalesce, silent_rewrites=coalesce))


@pytest.fixture
async def store(client: Client) -> Backend:
    """Give one client."""
    return client()
