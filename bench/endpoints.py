"""createEndpoint/s through HTTP: 16 keep-alive clients, on a /16 that holds 0 and 20 000 endpoints.

The clients are connections of one process that only writes requests and reads replies, so that it
takes as little as possible of the two cores it shares with netmaster and store. The reference is
what the same store does in the same run when 16 writers put one small key each at a time: a master
that made one store round trip per endpoint could not be faster than that.
"""

import asyncio
import statistics
import time
from collections.abc import Iterable, Iterator

from bench.netmaster import on_a_netmaster
from bench.table import Row, show
from objdb.api import Change, Put
from tests.bed.master import Master
from tests.bed.store import Store
from tests.bed.store import client as client_of

CLIENTS = 16
MEASURED = 6_000
WINDOWS = 5
PRESENT = 20_000
TARGET = 2_000.0
FLAT = 0.9
NETWORK = (
    b'{"tenantName":"default","networkName":"big","encap":"vxlan","subnet":"10.1.0.0/16",'
    b'"gateway":"10.1.255.254"}'
)


def rows() -> Iterable[Row]:
    """Measure on a private etcd and a netmaster of their own."""
    return on_a_netmaster(_measure)


def rows_on_consul() -> Iterable[Row]:
    """Measure on a private consul."""
    return on_a_netmaster(_measure, "consul")


async def _measure(master: Master, store: Store) -> list[Row]:
    names = _names()
    clients = [await Client.open("127.0.0.1", master.port) for _ in range(CLIENTS)]
    await clients[0].post("/api/v1/networks/default:big/", NETWORK)
    puts = await puts_per_second(store)
    await _create(clients, names, 500)  # warm-up
    empty = await _median(clients, names)
    await _create(clients, names, PRESENT - MEASURED - 500)
    full = await _median(clients, names)
    for client in clients:
        client.close()
    setting = f"{CLIENTS} keep-alive clients in one raw asyncio process, /16, real {store.kind}"
    return [
        Row(
            what=f"createEndpoint on {store.kind}, network empty",
            ours=empty,
            unit="1/s",
            reference=puts,
            ratio=empty / puts,
            note=f"{setting}; target {TARGET:g}; reference: single puts by 16 writers",
        ),
        Row(
            what=f"createEndpoint on {store.kind}, {PRESENT} endpoints present",
            ours=full,
            unit="1/s",
            reference=empty,
            ratio=full / empty,
            note=f"{setting}; target ratio {FLAT}; reference: the row above",
        ),
    ]


class Client:
    """One keep-alive HTTP/1.1 connection that posts and checks the status."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, host: str, port: int) -> "Client":
        """Connect."""
        return cls(*await asyncio.open_connection(host, port))

    async def post(self, path: str, body: bytes) -> bytes:
        """Return the reply's body; anything but 200 ends the benchmark."""
        return await self._ask(b"POST", path, body)

    async def get(self, path: str) -> bytes:
        """Return what is there."""
        return await self._ask(b"GET", path, b"")

    async def delete(self, path: str) -> bytes:
        """Delete; return the reply's body."""
        return await self._ask(b"DELETE", path, b"")

    async def _ask(self, method: bytes, path: str, body: bytes) -> bytes:
        self._writer.write(
            b"%s %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (method, path.encode(), len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head!r} {answer!r}")
        return answer

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


async def _median(clients: list[Client], names: Iterator[str]) -> float:
    """Return the median of some windows: one of them alone varies by a fifth."""
    rates = [await _create(clients, names, MEASURED // WINDOWS) for _ in range(WINDOWS)]
    return statistics.median(rates)


async def _create(clients: list[Client], names: Iterator[str], count: int) -> float:
    """Create `count` endpoints, as fast as they are answered; return how many per second."""
    left = iter(range(count))

    async def work(client: Client) -> None:
        for _ in left:
            name = next(names)
            await client.post(
                "/plugin/createEndpoint",
                b'{"TenantName":"default","NetworkName":"big","ServiceName":"","EndpointID":"%s",'
                b'"EPCommonName":"%s","ConfigEP":{"Container":"%s","Host":"h1"}}'
                % ((name.encode(),) * 3),
            )

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients))
    return count / (time.perf_counter() - began)


async def puts_per_second(store: Store) -> float:
    """Return how many single puts per second the same store takes from as many writers."""
    backend = client_of(store)
    left = iter(range(MEASURED))

    async def work() -> None:
        for number in left:
            await backend.commit([Change((), (Put(f"/bench/{number}", b"x" * 300),))])

    try:
        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(CLIENTS)))
        return MEASURED / (time.perf_counter() - began)
    finally:
        await backend.close()


def _names() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{number:064x}"


if __name__ == "__main__":
    show(rows())
