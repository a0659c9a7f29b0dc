"""Clients of a real store, closed at the end of a test."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from objdb.access import StoreAccess
from objdb.api import Backend
from objdb.consul import ConsulBackend
from objdb.etcd import EtcdBackend
from tests.bed.store import Store

Connect = Callable[..., Backend]

BACKENDS: dict[str, type[EtcdBackend] | type[ConsulBackend]] = {
    "etcd": EtcdBackend,
    "consul": ConsulBackend,
}


@pytest.fixture
async def connect(store_kind: str) -> AsyncIterator[Connect]:
    """Give a maker of clients of the endpoints named."""
    async with AsyncExitStack() as opened:

        def connect(*endpoints: str, budget: float = 10.0) -> Backend:
            backend = BACKENDS[store_kind](StoreAccess(endpoints=endpoints), budget=budget)
            opened.push_async_callback(backend.close)
            return backend

        yield connect


def endpoint(store: Store) -> str:
    return store.url.removeprefix("http://")
