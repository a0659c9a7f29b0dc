"""REST objects: creating and listing 1 000 networks and groups, a network with 5 000 endpoints.

The reference of creations is what the same etcd takes from 16 writers of single keys; that of reads
is a bare aiohttp handler that answers the same bytes, asked in turns. The original's figures (same
kind of machine, a connection for each request): 155 networks/s, createEndpoint in 4.6 ms, a list of
1 000 networks in 0.87 ms, an inspection of 5 000 endpoints in 56 ms, 39 MiB.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.bare import bare_server
from bench.endpoints import CLIENTS, Client, puts_per_second
from bench.netmaster import on_a_netmaster
from bench.table import Row, show
from tests.bed.master import Master
from tests.bed.store import Store

NETWORKS = 1_000
ENDPOINTS = 5_000
READS = 100
SINGLE = 300


def rows() -> Iterable[Row]:
    """Measure on a private etcd and a netmaster of their own."""
    return on_a_netmaster(_measure)


async def _measure(master: Master, store: Store) -> list[Row]:
    clients = [await Client.open("127.0.0.1", master.port) for _ in range(CLIENTS)]
    fresh = rss(master.pid)
    puts = await puts_per_second(store)
    names = itertools.count()
    await _create(clients, [_network(0)])
    alone = await _latency(clients[0], names)
    networks = await _create(clients, [_network(number) for number in range(1, NETWORKS)])
    groups = await _create(clients, [_group(number) for number in range(NETWORKS)])
    among_networks = await _latency(clients[0], names)
    await _create(clients, [_endpoint(number) for number in itertools.islice(names, ENDPOINTS)])
    among_endpoints = await _latency(clients[0], names)
    rows = [
        _rate(f"networks created, {NETWORKS} in all", networks, puts),
        _rate(f"groups created, {NETWORKS} in all", groups, puts),
        _growth(f"createEndpoint p50, {NETWORKS} networks and groups", among_networks, alone),
        _growth(f"createEndpoint p50, and {ENDPOINTS} endpoints", among_endpoints, alone),
        await _read(master, f"list of {NETWORKS} networks", "/api/v1/networks/"),
        await _read(
            master,
            f"inspect a network with {ENDPOINTS} endpoints",
            "/api/v1/inspect/networks/default:n0/",
        ),
        _memory(fresh, rss(master.pid)),
    ]
    for client in clients:
        client.close()
    return rows


async def _latency(client: Client, names: Iterator[int]) -> float:
    """Return the median time of creating an endpoint, one at a time, in milliseconds."""
    times = []
    for path, body in map(_endpoint, itertools.islice(names, SINGLE)):
        began = time.perf_counter()
        await client.post(path, body)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def _read(master: Master, what: str, path: str) -> Row:
    """Compare the median time of a GET with that of a bare handler's same answer."""
    ours = await Client.open("127.0.0.1", master.port)
    with bare_server(await ours.get(path)) as port:
        bare = await Client.open("127.0.0.1", port)
        times: dict[Client, list[float]] = {ours: [], bare: []}
        for _ in range(READS):
            for client, series in times.items():
                began = time.perf_counter()
                await client.get(path)
                series.append((time.perf_counter() - began) * 1000)
        took, reference = (statistics.median(series) for series in times.values())
        for client in times:
            client.close()
    return Row(
        what=what,
        ours=took,
        unit="ms",
        reference=reference,
        ratio=reference / took,
        note=f"median of {READS}, keep-alive; reference: the same bytes from bare aiohttp",
    )


def _growth(what: str, ours: float, alone: float) -> Row:
    note = f"median of {SINGLE}, one keep-alive client; reference: one network, no endpoints"
    return Row(what=what, ours=ours, unit="ms", reference=alone, ratio=alone / ours, note=note)


def _memory(fresh: float, full: float) -> Row:
    return Row(
        what="netmaster memory (VmRSS)",
        ours=full,
        unit="MiB",
        reference=fresh,
        ratio=fresh / full,
        note=f"with {NETWORKS} networks and groups, {ENDPOINTS} endpoints; reference: just started",
    )


def _rate(what: str, rate: float, puts: float) -> Row:
    note = f"{CLIENTS} keep-alive clients; reference: single etcd puts by {CLIENTS} writers"
    return Row(what=what, ours=rate, unit="1/s", reference=puts, ratio=rate / puts, note=note)


def _network(number: int) -> tuple[str, bytes]:
    body = (
        f'{{"tenantName":"default","networkName":"n{number}","encap":"vxlan",'
        f'"subnet":"10.{number // 8}.{number % 8 * 32}.0/19"}}'
    )
    return f"/api/v1/networks/default:n{number}/", body.encode()


def _group(number: int) -> tuple[str, bytes]:
    body = f'{{"tenantName":"default","networkName":"n{number}","groupName":"g{number}"}}'
    return f"/api/v1/endpointGroups/default:g{number}/", body.encode()


def _endpoint(number: int) -> tuple[str, bytes]:
    body = (
        '{"TenantName":"default","NetworkName":"n0",'
        f'"ConfigEP":{{"Container":"{number:064x}","Host":"h1"}}}}'
    )
    return "/plugin/createEndpoint", body.encode()


async def _create(clients: list[Client], wanted: list[tuple[str, bytes]]) -> float:
    """Post everything, as fast as it is answered; return how many per second."""
    left = iter(wanted)

    async def work(client: Client) -> None:
        for path, body in left:
            await client.post(path, body)

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients))
    return len(wanted) / (time.perf_counter() - began)


def rss(pid: int) -> float:
    """Return the MiB a process has in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    show(rows())
