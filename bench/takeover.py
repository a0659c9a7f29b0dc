"""Taking over 100 000 endpoints: how long no write is served, and what the next leader weighs.

The endpoints and their addresses are written straight into the store, as netmaster would. Then the
leader ends in good order, so that what is left of the outage is the next one's: reading, where it
has only just started or the store is consul, and making the view. Beside it stands the bare reading
of the same keys by the same client, without making anything of them.
"""

import asyncio
import signal
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address

from bench.failover import on_store, outage
from bench.objects import rss
from bench.records import Crowd, write
from bench.stores import ETCD, STORES, Server, Store
from bench.table import Row, show
from core import ids, keys
from core.ids import NetworkName, TenantName
from objdb.api import Backend
from tests.bed.master import Master
from tests.bed.waiting import eventually

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
        yield from on_store(store, _measure)


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
    started = [await outage(masters, signal.SIGTERM) for _ in range(TAKEOVERS)]
    taken_over = [_row(f"{store.name}, from a follower's start", started, reading)]
    if store.name == ETCD.name:
        ready = [await _outage_when_ready(masters) for _ in range(TAKEOVERS)]
        taken_over.append(_row(f"{store.name}, by a follower that is ready", ready, reading))
        await _until_ready(masters)
    weights = sorted(rss(master.pid) for master in masters)
    return [
        *taken_over,
        *(
            Row(
                what=f"{store.name}: memory of a {role} of {ENDPOINTS} endpoints",
                ours=heavy,
                unit="MiB",
                reference=light,
                ratio=light / heavy,
                note="VmRSS; reference: without endpoints",
            )
            for role, heavy in zip(("follower", "leader"), weights, strict=True)
        ),
    ]


def _row(what: str, outages: Sequence[float], reading: float) -> Row:
    return Row(
        what=f"{what}: {ENDPOINTS} endpoints taken over, slowest",
        ours=max(outages),
        unit="ms",
        reference=reading,
        ratio=reading / max(outages),
        note=f"n={TAKEOVERS}; target {TARGET * 1000:g} at most; reference: reading the keys",
    )


async def _outage_when_ready(masters: Sequence[Master]) -> float:
    """Return the ms of an outage when the next leader has read the store."""
    await _until_ready(masters)
    return await outage(list(masters), signal.SIGTERM)


async def _until_ready(masters: Sequence[Master]) -> None:
    def is_ready() -> bool:
        pages = [master.ask("GET", "/metrics").body for master in masters]
        return any(b"\ncontiv_netmaster_standby_ready 1" in page for page in pages)

    await asyncio.to_thread(eventually, is_ready, "a follower is ready", within=60)


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
