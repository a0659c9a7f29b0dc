"""Taking over 100 000 endpoints: how long no write is served, and what the next leader weighs.

The endpoints and their addresses are written straight into the store, as netmaster would. Then the
leader ends in good order, so that what is left of the outage is the next one's reading. Beside it
stands the bare reading of the same keys by the same client, without making anything of them.
"""

import asyncio
import signal
import tempfile
import time
from collections.abc import Iterable
from ipaddress import IPv4Address
from pathlib import Path

import uvloop

from bench.failover import outage
from bench.objects import rss
from bench.records import Crowd, write
from bench.stores import STORES, Server, Store
from bench.table import Row, show
from core import ids, keys
from core.ids import NetworkName, TenantName
from objdb.api import Backend
from tests.bed.master import Master

ENDPOINTS = 100_000
TARGET = 5.0
TAKEOVERS = 3
NETWORK = {
    "tenantName": "default",
    "networkName": "big",
    "encap": "vxlan",
    "subnet": "10.2.0.0/15",
    "gateway": "10.3.255.254",
}
CROWD = Crowd(
    ids.network_id(NetworkName("big"), TenantName("default")), IPv4Address("10.2.0.1"), hosts=100
)


def rows() -> Iterable[Row]:
    """Measure on each kind of store."""
    for store in STORES:
        yield from _on(store)


def _on(store: Store) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        server = store.make(Path(directory))
        masters = [store.master(Path(directory), server, name) for name in ("a", "b")]
        try:
            server.start()
            return uvloop.run(_measure(store, server, masters))
        finally:
            for master in masters:
                master.kill()
            server.kill()


async def _measure(store: Store, server: Server, masters: list[Master]) -> list[Row]:
    first, _ = masters
    await asyncio.to_thread(first.start)
    light = rss(first.pid)
    answer = first.ask("POST", "/api/v1/networks/default:big/", NETWORK)
    if answer.status != 200:
        raise RuntimeError(answer.text)
    await asyncio.to_thread(first.kill)
    reading = await _seed(store.client(server))
    for master in masters:
        await asyncio.to_thread(master.start, within=60)
    outages = [await outage(masters, signal.SIGTERM) for _ in range(TAKEOVERS)]
    heavy = max(rss(master.pid) for master in masters)
    return [
        Row(
            what=f"{store.name}: {ENDPOINTS} endpoints taken over, slowest",
            ours=max(outages),
            unit="ms",
            reference=reading,
            ratio=reading / max(outages),
            note=f"n={TAKEOVERS}; target {TARGET * 1000:g} at most; reference: reading the keys",
        ),
        Row(
            what=f"{store.name}: memory of a leader of {ENDPOINTS} endpoints",
            ours=heavy,
            unit="MiB",
            reference=light,
            ratio=light / heavy,
            note="VmRSS; reference: without endpoints",
        ),
    ]


async def _seed(backend: Backend) -> float:
    """Write the endpoints; return the ms it takes to read them again."""
    try:
        await write(backend, CROWD.puts(range(ENDPOINTS)))
        began = time.perf_counter()
        await backend.snapshot(keys.ROOT)
        return (time.perf_counter() - began) * 1000
    finally:
        await backend.close()


if __name__ == "__main__":
    show(rows())
