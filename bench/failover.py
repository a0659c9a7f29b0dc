"""How long no write is served when the leading netmaster ends, killed or in good order.

Clients create tenants without a pause, at every master alike; an outage is the longest time between
two creations that somebody acknowledged, from the signal until the next leads. The reference is the
store's own part, in the same run: a key under a lease of 2 s, from the kill of its holder until it
is gone, and a lease that is revoked until a watch says so.
"""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench.endpoints import Client
from bench.stores import ETCD_CLUSTER, STORES, Server, Store
from bench.table import Row, show
from core.tasks import background
from objdb.api import Backend, Change, Delta, Put
from tests.bed.etcd_cluster import EtcdCluster
from tests.bed.master import Master
from tests.bed.waiting import eventually_async

KILLS = 20
TOGETHER = 5
"""How often the raft leader dies with the netmaster."""
SERVED_WITHIN = 0.5
"""Seconds: the target of a hand-over in good order."""
LEASE = 2
PAUSE = 0.003
PATIENCE = 1.0
WATCHED = "/bench/lease/"
HELD = WATCHED + "key"
REFERENCES = 5


def rows() -> Iterable[Row]:
    """Measure on each kind of store, and on three members of etcd."""
    for store in STORES:
        yield from on_store(store, _signals)
    yield from on_store(ETCD_CLUSTER, _together)


def on_store(store: Store, measure: "Measure") -> list[Row]:
    """Measure two masters on a store that is started for it; the measurement starts them."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        server = store.make(Path(directory))
        masters = [store.master(Path(directory), server, name) for name in ("a", "b")]
        try:
            server.start()
            return uvloop.run(measure(store, server, masters))
        finally:
            for master in masters:
                master.kill()
            server.kill()


async def _signals(store: Store, server: Server, masters: list[Master]) -> list[Row]:
    for master in masters:
        await asyncio.to_thread(master.start)
    killed = [await outage(masters, signal.SIGKILL) for _ in range(KILLS)]
    ended = [await outage(masters, signal.SIGTERM) for _ in range(KILLS)]
    expiry, revoked = await _leases(store, server)
    return [
        *_rows(f"{store.name}: leader SIGKILLed", killed, expiry, store.within),
        *_rows(f"{store.name}: leader SIGTERMed", ended, revoked, SERVED_WITHIN),
    ]


async def _together(store: Store, server: Server, masters: list[Master]) -> list[Row]:
    if not isinstance(server, EtcdCluster):
        raise TypeError("only etcd's raft leader can be found")
    for master in masters:
        await asyncio.to_thread(master.start)
    outages = []
    for _ in range(TOGETHER):
        raft = next(member for member in server.members if member.leads_raft())
        outages.append(await outage(masters, signal.SIGKILL, raft.kill))
        await asyncio.to_thread(raft.start)
    expiry, _ = await _leases(store, server)
    return _rows(f"{store.name}: raft leader killed with it", outages, expiry, store.within)


@dataclass(slots=True)
class Probe:
    """Creates tenants at one master, again and again, and notes when one was acknowledged."""

    master: Master
    served: list[float] = field(default_factory=list)

    async def run(self, name: str) -> None:
        """Write for ever; a connection or an answer that fails is tried anew."""
        number = 0
        while True:
            with contextlib.suppress(OSError, RuntimeError, EOFError, TimeoutError, ValueError):
                async with self._connected() as client:
                    while True:
                        number += 1
                        tenant = f"{name}{number}"
                        body = b'{"tenantName":"%s"}' % tenant.encode()
                        async with asyncio.timeout(PATIENCE):
                            await client.post(f"/api/v1/tenants/{tenant}/", body)
                        self.served.append(time.monotonic())
                        await asyncio.sleep(PAUSE)
            await asyncio.sleep(PAUSE)

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        client = await Client.open("127.0.0.1", self.master.port)
        try:
            yield client
        finally:
            client.close()


_rounds = itertools.count()


async def outage(
    masters: list[Master], how: signal.Signals, also: Callable[[], None] | None = None
) -> float:
    """Send the leader a signal; return the longest time in ms that nobody was served."""
    leader = await _leader(masters)
    other = next(master for master in masters if master is not leader)
    probes = [Probe(master) for master in masters]
    async with contextlib.AsyncExitStack() as stack:
        for number, probe in enumerate(probes):
            run = probe.run(f"r{next(_rounds)}p{number}x")
            await stack.enter_async_context(background("probe", run))
        await asyncio.sleep(random.uniform(0.5, 1.2))  # anywhere between two renewals
        began = time.monotonic()
        if also is not None:
            also()
        os.kill(leader.pid, how)
        await eventually_async(lambda: _leads(other), "the other leads", within=60)
        leads = time.monotonic()
        await eventually_async(
            lambda: _served_after(probes, leads), "the other serves a write", within=60
        )
    served = [when for probe in probes for when in probe.served if when > began]
    await asyncio.to_thread(leader.kill)
    await asyncio.to_thread(leader.start)
    return _longest(began, sorted(served)) * 1000


async def _served_after(probes: Sequence[Probe], when: float) -> bool:
    return any(probe.served and probe.served[-1] > when for probe in probes)


def _longest(began: float, served: Sequence[float]) -> float:
    return max(after - before for before, after in zip((began, *served), served, strict=False))


async def _leader(masters: list[Master]) -> Master:
    async def found() -> Master | None:
        for master in masters:
            if await _leads(master):
                return master
        return None

    leader = await eventually_async(found, "somebody leads", within=60)
    if leader is None:
        raise RuntimeError("nobody leads")
    return leader


async def _leads(master: Master) -> bool:
    try:
        answer = await asyncio.to_thread(master.ask, "GET", "/info")
    except OSError:
        return False
    return answer.status == 200 and f'"leader-ip":"{master.address}"' in answer.text


async def _leases(store: Store, server: Server) -> tuple[float, float]:
    """Return the ms a key outlives the holder of its lease, and a watch its revocation."""
    backend = store.client(server)
    try:
        expiry = [await _expired(backend, server) for _ in range(REFERENCES)]
        revoked = [await _revoked(backend) for _ in range(REFERENCES)]
    finally:
        await backend.close()
    return statistics.median(expiry), statistics.median(revoked)


async def _expired(backend: Backend, server: Server) -> float:
    command = (sys.executable, "-m", "bench.holder", server.kind, server.url, HELD, str(LEASE))
    holder = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        if holder.stdout is None or await holder.stdout.readline() != b"held\n":
            raise RuntimeError("the holder of a lease did not start")
        gone = asyncio.Event()
        async with background("gone", _tell_when_gone(backend, gone)):
            await asyncio.sleep(random.uniform(0.5, 1.2))
            began = time.monotonic()
            holder.kill()
            await gone.wait()
            return (time.monotonic() - began) * 1000
    finally:
        with contextlib.suppress(ProcessLookupError):
            holder.kill()
        await holder.wait()


async def _revoked(backend: Backend) -> float:
    lease = await backend.lease(LEASE)
    await backend.commit([Change((), (Put(HELD, b"held", lease),))])
    gone = asyncio.Event()
    async with background("gone", _tell_when_gone(backend, gone)):
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await lease.revoke()
        await gone.wait()
        return (time.monotonic() - began) * 1000


async def _tell_when_gone(backend: Backend, gone: asyncio.Event) -> None:
    async for item in backend.watch(WATCHED):
        if isinstance(item, Delta) and HELD in item.deletes:
            gone.set()


def _rows(what: str, outages: Sequence[float], reference: float, within: float) -> list[Row]:
    note = f"n={len(outages)}; target {within * 1000:g} at most; reference: "
    note += "what the store's lease alone takes, median"
    ordered = sorted(outages)
    figures = {"min": ordered[0], "p50": statistics.median(ordered), "max": ordered[-1]}
    return [
        Row(
            what=f"{what}, {name}",
            ours=took,
            unit="ms",
            reference=reference,
            ratio=reference / took,
            note=note,
        )
        for name, took in figures.items()
    ]


Measure = Callable[[Store, Server, list[Master]], Coroutine[None, None, list[Row]]]


if __name__ == "__main__":
    show(rows())
