"""Clients of a real etcd, closed at the end of a test."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from objdb.access import Access
from objdb.etcd import EtcdBackend
from tests.bed.etcd import Etcd

Connect = Callable[..., EtcdBackend]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Give a maker of clients of the endpoints named."""
    async with AsyncExitStack() as opened:

        def connect(*endpoints: str, budget: float = 10.0) -> EtcdBackend:
            backend = EtcdBackend(Access(endpoints=endpoints), budget=budget)
            opened.push_async_callback(backend.close)
            return backend

        yield connect


def endpoint(etcd: Etcd) -> str:
    return etcd.url.removeprefix("http://")
