"""Rules/s through HTTP: 16 keep-alive clients post 500 rules to a policy that a group names.

First into an empty policy, then into one that has thousands; then the policy goes, with all its
rules. The clients and the reference are those of `bench.endpoints`: what the same etcd does in the
same run when 16 writers put one small key each at a time.

Then the whole system, on one simulated host: from the first request until the switch has the last
rule's flow, beside the time in which the same requests were answered.
"""

import asyncio
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import uvloop

from bench.cni import manage
from bench.endpoints import CLIENTS, Client, puts_per_second
from bench.monitor import Monitor, monitor
from bench.netmaster import on_a_netmaster
from bench.table import Row, show
from ofnet.world import Bridge
from tests.bed.cluster import NETMASTER_PORT, Bed
from tests.bed.master import Master
from tests.bed.store import Store

MEASURED = 500
ROUNDS = 3
PRESENT = 5_000
TARGET = 1_500.0
ORIGINAL = 46.0
SCENE = (
    (
        "networks/default:n1",
        b'{"tenantName":"default","networkName":"n1","encap":"vxlan","subnet":"10.1.0.0/16"}',
    ),
    ("policys/default:p1", b'{"tenantName":"default","policyName":"p1"}'),
    (
        "endpointGroups/default:g1",
        b'{"tenantName":"default","groupName":"g1","networkName":"n1","policies":["p1"]}',
    ),
)
RULE = r"tcp,.*tp_dst=\d"
DETACHED = b'{"tenantName":"default","groupName":"g1","networkName":"n1"}'


def rows() -> Iterable[Row]:
    """Measure on a private etcd and a netmaster of their own, then with an agent and a switch."""
    yield from on_a_netmaster(_measure)
    yield _to_the_switch()


async def posted_per_second(master: Master, _: Store) -> float:
    """Return how many rules per second a fresh netmaster takes."""
    context = master.context()
    clients = [await Client.open("127.0.0.1", master.port, context) for _ in range(CLIENTS)]
    for path, body in SCENE:
        await clients[0].post(f"/api/v1/{path}/", body)
    rate = await _post_rounds(clients, 0)
    for client in clients:
        client.close()
    return rate


def _to_the_switch() -> Row:
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=1).start()
        try:
            manage(bed)
            with monitor(bed.hosts[0], Bridge.VXLAN) as flows:
                return uvloop.run(_realised(bed, flows))
        finally:
            bed.stop()


async def _realised(bed: Bed, flows: Monitor) -> Row:
    where = bed.fabric.address, NETMASTER_PORT
    dialled = [
        bed.fabric.namespace.call(lambda: socket.create_connection(where)) for _ in range(CLIENTS)
    ]
    clients = [Client(*await asyncio.open_connection(sock=one)) for one in dialled]
    for path, body in SCENE:
        await clients[0].post(f"/api/v1/{path}/", body)
    rates = []
    for start in range(0, MEASURED * ROUNDS, MEASURED):
        began = time.monotonic()
        answered = await _post(clients, range(start, start + MEASURED))
        rates.append((MEASURED / (flows.wait(RULE, MEASURED) - began), answered))
    for client in clients:
        client.close()
    ours, reference = sorted(rates)[len(rates) // 2]
    return Row(
        what=f"rules, {MEASURED} posted, to flows in the switch",
        ours=ours,
        unit="1/s",
        reference=reference,
        ratio=ours / reference,
        note=f"{CLIENTS} clients, median of {ROUNDS}; target {TARGET:g}, the original "
        f"{ORIGINAL:g}; reference: the same requests answered",
    )


async def _measure(master: Master, store: Store) -> list[Row]:
    clients = [await Client.open("127.0.0.1", master.port) for _ in range(CLIENTS)]
    for path, body in SCENE:
        await clients[0].post(f"/api/v1/{path}/", body)
    puts = await puts_per_second(store)
    few = await _post_rounds(clients, 0)
    posted = MEASURED * ROUNDS
    await _post(clients, range(posted, PRESENT))
    many = await _post_rounds(clients, PRESENT)
    await clients[0].post("/api/v1/endpointGroups/default:g1/", DETACHED)
    total = PRESENT + posted
    began = time.perf_counter()
    await clients[0].delete("/api/v1/policys/default:p1/")
    deleted = total / (time.perf_counter() - began)
    for client in clients:
        client.close()
    setting = f"{CLIENTS} keep-alive clients in one raw asyncio process, real etcd"
    return [
        Row(
            what=f"rules, {MEASURED} posted, policy empty at first",
            ours=few,
            unit="1/s",
            reference=puts,
            ratio=few / puts,
            note=f"{setting}; target {TARGET:g}, the original {ORIGINAL:g} with flows; "
            f"reference: single etcd puts by {CLIENTS} writers",
        ),
        Row(
            what=f"rules, {MEASURED} posted, {PRESENT} present",
            ours=many,
            unit="1/s",
            reference=few,
            ratio=many / few,
            note=f"{setting}; reference: the row above",
        ),
        Row(
            what=f"policy of {total} rules deleted by one request",
            ours=deleted,
            unit="1/s",
            reference=puts,
            ratio=deleted / puts,
            note="rules per second; reference: single etcd puts",
        ),
    ]


async def _post_rounds(clients: list[Client], first: int) -> float:
    """Post a few times as many rules; return the rules per second of the median round."""
    rates = [
        await _post(clients, range(start, start + MEASURED))
        for start in range(first, first + MEASURED * ROUNDS, MEASURED)
    ]
    return sorted(rates)[len(rates) // 2]


async def _post(clients: list[Client], numbers: Iterable[int]) -> float:
    """Post one rule for each number, as fast as they are answered; return how many per second."""
    left = iter(numbers)
    done = 0

    async def work(client: Client) -> None:
        nonlocal done
        for number in left:
            await client.post(
                f"/api/v1/rules/default:p1:{number}/",
                b'{"tenantName":"default","policyName":"p1","ruleId":"%d","direction":"in",'
                b'"priority":10,"action":"allow","protocol":"tcp","port":%d}'
                % (number, 1 + number % 65_000),
            )
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients))
    return done / (time.perf_counter() - began)


if __name__ == "__main__":
    show(rows())
