"""REST objects: creating and listing 1 000 networks, groups, and a network with 5 000 endpoints.

The reference of creations is what the same etcd takes from 16 writers of single keys; that of reads
is `GET /version` on the same connection, the cheapest answer there is. The original's figures
(same kind of machine, a connection for each request): 155 networks/s, a list of 1 000 networks in
0.87 ms, an inspection of 5 000 endpoints in 56 ms, 39 MiB.
"""

import asyncio
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

from bench.endpoints import CLIENTS, Client, puts_per_second
from bench.netmaster import on_a_netmaster
from bench.table import Row, show
from tests.bed.master import Master
from tests.bed.store import Store

NETWORKS = 1_000
ENDPOINTS = 5_000
READS = 30


def rows() -> Iterable[Row]:
    """Measure on a private etcd and a netmaster of their own."""
    return on_a_netmaster(_measure)


async def _measure(master: Master, store: Store) -> list[Row]:
    clients = [await Client.open("127.0.0.1", master.port) for _ in range(CLIENTS)]
    fresh = _rss(master.pid)
    puts = await puts_per_second(store)
    networks = await _create(clients, [_network(number) for number in range(NETWORKS)])
    groups = await _create(clients, [_group(number) for number in range(NETWORKS)])
    await _create(clients, [_endpoint(number) for number in range(ENDPOINTS)])
    reads = {
        f"list of {NETWORKS} networks": "/api/v1/networks/",
        f"inspect a network with {ENDPOINTS} endpoints": "/api/v1/inspect/networks/default:n0/",
    }
    least = await _read(clients[0], "/version")
    rows = [
        _rate(f"networks created, {NETWORKS} in all", networks, puts),
        _rate(f"groups created, {NETWORKS} in all", groups, puts),
    ]
    for what, path in reads.items():
        took = await _read(clients[0], path)
        rows.append(
            Row(
                what=what,
                ours=took,
                unit="ms",
                reference=least,
                ratio=least / took,
                note=f"median of {READS}, one keep-alive client; reference: GET /version",
            )
        )
    full = _rss(master.pid)
    note = f"with {NETWORKS} networks and groups, {ENDPOINTS} endpoints; reference: just started"
    rows.append(
        Row(
            what="netmaster memory (VmRSS)",
            ours=full,
            unit="MiB",
            reference=fresh,
            ratio=fresh / full,
            note=note,
        )
    )
    for client in clients:
        client.close()
    return rows


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


async def _read(client: Client, path: str) -> float:
    """Return the median time of a GET in milliseconds."""
    times = []
    for _ in range(READS):
        began = time.perf_counter()
        await client.get(path)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _rss(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    show(rows())
