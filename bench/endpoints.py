"""createEndpoint/s through HTTP: keep-alive clients, on a /16 that holds 0 and 20 000 endpoints.

The clients are connections of one process that only writes requests and reads replies, so that it
takes as little as possible of the two cores it shares with netmaster and store. The reference is
what the same store does in the same run when 16 writers put one small key each at a time: a master
that made one store round trip per endpoint could not be faster than that. With 64 clients, who ask
as fast as they are answered, it says what a crowd costs each of them.
"""

import asyncio
import ssl
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.netmaster import HOST, on_a_netmaster
from bench.table import Row, show
from objdb.api import Change, Put
from tests.bed.master import Master
from tests.bed.store import Store
from tests.bed.store import client as client_of

CLIENTS = 16
CROWD = 64
MEASURED = 6_000
WINDOWS = 5
PRESENT = 20_000
TARGETS = {CLIENTS: 2_500.0, CROWD: 5_000.0}
FLAT = 0.9
NETWORK = (
    b'{"tenantName":"default","networkName":"big","encap":"vxlan","subnet":"10.1.0.0/16",'
    b'"gateway":"10.1.255.254"}'
)


def rows() -> Iterable[Row]:
    """Measure on a private etcd and a netmaster of their own."""
    return on_a_netmaster(_measure)


async def created_per_second(master: Master, _: Store) -> float:
    """Return how many endpoints per second a fresh netmaster creates."""
    names = _names()
    admin = await Client.open("127.0.0.1", master.port, master.context())
    await admin.post("/api/v1/networks/default:big/", NETWORK)
    context = master.context(HOST)
    clients = [await Client.open("127.0.0.1", master.port, context) for _ in range(CLIENTS)]
    await _create(clients, names, 500)  # warm-up
    rates = await _windows(clients, names)
    for client in (admin, *clients):
        client.close()
    return rates.rate


async def created_by(clients: int, port: int) -> float:
    """Return how many endpoints per second so many clients create with what listens at a port."""
    open_ones = [await Client.open("127.0.0.1", port) for _ in range(clients)]
    names = _names()
    await _create(open_ones, names, 500)  # warm-up
    rates = await _windows(open_ones, names)
    for client in open_ones:
        client.close()
    return rates.rate


def rows_on_consul() -> Iterable[Row]:
    """Measure on a private consul."""
    return on_a_netmaster(_measure, "consul")


async def _measure(master: Master, store: Store) -> list[Row]:
    names = _names()
    clients = [await Client.open("127.0.0.1", master.port) for _ in range(CLIENTS)]
    await clients[0].post("/api/v1/networks/default:big/", NETWORK)
    puts = await puts_per_second(store)
    await _create(clients, names, 500)  # warm-up
    empty = await _windows(clients, names)
    await _create(clients, names, PRESENT - MEASURED - 500)
    full = await _windows(clients, names)
    # opened late: a connection without a request is closed after some seconds
    more = [await Client.open("127.0.0.1", master.port) for _ in range(CROWD - CLIENTS)]
    crowd = clients + more
    crowded = await _windows(crowd, names)
    for client in crowd:
        client.close()
    setting = f"keep-alive clients in one raw asyncio process, /16, real {store.kind}"
    return [
        Row(
            what=f"createEndpoint on {store.kind}, network empty",
            ours=empty.rate,
            unit="1/s",
            reference=puts,
            ratio=empty.rate / puts,
            note=f"{CLIENTS} {setting}; target {TARGETS[CLIENTS]:g}; "
            f"reference: single puts by {CLIENTS} writers",
        ),
        Row(
            what=f"createEndpoint on {store.kind}, {PRESENT} endpoints present",
            ours=full.rate,
            unit="1/s",
            reference=empty.rate,
            ratio=full.rate / empty.rate,
            note=f"{CLIENTS} {setting}; target ratio {FLAT}; reference: the row above",
        ),
        Row(
            what=f"createEndpoint on {store.kind}, {CROWD} clients",
            ours=crowded.rate,
            unit="1/s",
            reference=full.rate,
            ratio=crowded.rate / full.rate,
            note=f"{setting}; target {TARGETS[CROWD]:g}; reference: {CLIENTS} clients",
        ),
        *_late(store.kind, full, CLIENTS),
        *_late(store.kind, crowded, CROWD),
    ]


def _late(kind: str, rates: "Rates", clients: int) -> Iterator[Row]:
    """Yield the slowest answers, beside the time each client waits at the rate measured."""
    even = clients / rates.rate * 1000
    ordered = sorted(rates.waits)
    p99 = ordered[int(len(ordered) * 0.99)] * 1000
    yield Row(
        what=f"createEndpoint on {kind} p99, {clients} clients",
        ours=p99,
        unit="ms",
        reference=even,
        ratio=even / p99,
        note="reference: what each would wait if all waited alike",
    )


@dataclass(frozen=True, slots=True)
class Rates:
    """Endpoints per second, and how long each creation took in seconds."""

    rate: float
    waits: list[float]


class Client:
    """One keep-alive HTTP/1.1 connection that posts and checks the status."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, host: str, port: int, context: ssl.SSLContext | None = None) -> "Client":
        """Connect, by TLS with a context."""
        return cls(*await asyncio.open_connection(host, port, ssl=context))

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


async def _windows(clients: list[Client], names: Iterator[str]) -> Rates:
    """Return the median of some windows: one of them alone varies by a fifth."""
    windows = [await _create(clients, names, MEASURED // WINDOWS) for _ in range(WINDOWS)]
    return Rates(
        statistics.median(window.rate for window in windows),
        [wait for window in windows for wait in window.waits],
    )


async def _create(clients: list[Client], names: Iterator[str], count: int) -> Rates:
    """Create `count` endpoints, as fast as they are answered."""
    left = iter(range(count))
    waits: list[float] = []

    async def work(client: Client) -> None:
        for _ in left:
            name = next(names)
            asked = time.perf_counter()
            await client.post(
                "/plugin/createEndpoint",
                b'{"TenantName":"default","NetworkName":"big","ServiceName":"","EndpointID":"%s",'
                b'"EPCommonName":"%s","ConfigEP":{"Container":"%s","Host":"h1"}}'
                % ((name.encode(),) * 3),
            )
            waits.append(time.perf_counter() - asked)

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients))
    return Rates(count / (time.perf_counter() - began), waits)


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
