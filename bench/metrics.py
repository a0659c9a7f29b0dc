"""What metrics cost: the counting of one operation, beside the processor time of that operation.

A share of some per mille is lost in the noise between two runs of a daemon. So it is measured
where it arises: everything that one createEndpoint or one ADD counts is repeated in a loop, and
its processor time is set beside what the daemon itself spent on one of them in the same run. The
page is timed as a client waits for it, and by what it costs of a processor at one scrape in 15 s.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from bench.cni import NETWORK, manage
from bench.endpoints import NETWORK as BIG
from bench.endpoints import Client
from bench.netmaster import on_a_netmaster
from bench.table import Row
from daemons.request_stats import RequestStats, method_label
from netmaster.commits.commit_stats import CommitStats
from netplugin.pods.registry.add_stages import AddStages
from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.master import Master
from tests.bed.netns import http_request
from tests.bed.store import Store

CREATED: Final = 3_000
NETWORKS: Final = 1_000
PODS: Final = 40
REPEATED: Final = 20_000
TARGET: Final = 0.02
SCRAPE: Final = 15.0
STAGES: Final = (
    *("journal adding", "grant", "records", "link", "port", "flows", "namespace"),
    *("journal present", "place"),
)
_TICK: Final = os.sysconf("SC_CLK_TCK")


def rows() -> Iterable[Row]:
    """Measure a netmaster, then an agent."""
    yield from on_a_netmaster(_of_master)
    yield from _of_agent()


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that a process has used, all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def per_call(count: Callable[[], None]) -> float:
    """Return the processor time of one call, in seconds."""
    began = time.process_time()
    for _ in range(REPEATED):
        count()
    return (time.process_time() - began) / REPEATED


async def _of_master(master: Master, _store: Store) -> list[Row]:
    client = await Client.open("127.0.0.1", master.port)
    await client.post("/api/v1/networks/default:big/", BIG)
    began = processor_time(master.pid)
    for number in range(CREATED):
        body = (
            '{"TenantName":"default","NetworkName":"big",'
            f'"ConfigEP":{{"Container":"m{number}","Host":"h1"}}}}'
        )
        await client.post("/plugin/createEndpoint", body.encode())
    whole = (processor_time(master.pid) - began) / CREATED
    for number in range(NETWORKS):
        net = (
            f'{{"tenantName":"default","networkName":"n{number}","encap":"vxlan",'
            f'"subnet":"10.{2 + number // 250}.{number % 250}.0/24"}}'
        )
        await client.post(f"/api/v1/networks/default:n{number}/", net.encode())
    waits, cost = [], processor_time(master.pid)
    for _ in range(20):
        asked = time.perf_counter()
        await client.get("/metrics")
        waits.append(time.perf_counter() - asked)
    cost = (processor_time(master.pid) - cost) / len(waits)
    client.close()
    return [
        _share("counting of a createEndpoint", per_call(_counted_request()), whole),
        _page(f"/metrics of netmaster, {NETWORKS} networks", waits, cost),
    ]


def _counted_request() -> Callable[[], None]:
    requests, commits, revision = RequestStats(), CommitStats(), 0

    def count() -> None:
        # a lone client: each createEndpoint is a commit of its own, which is the most there can be
        nonlocal revision
        revision += 1
        began = time.monotonic()
        commits.attempted("committed", 1, 0.002)
        commits.committed(revision, time.monotonic())
        commits.reported(revision, time.monotonic())
        took = time.monotonic() - began
        requests.count(200, took, method_label("POST"), "/plugin/createEndpoint")

    return count


def _of_agent() -> Iterable[Row]:
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=1).start()
        try:
            manage(bed)
            bed.netctl("net", "create", *NETWORK)
            host, agent = bed.hosts[0], bed.agents[0]
            bed.add_pod(host, "warm")
            began = processor_time(agent.pid)
            for number in range(PODS):
                bed.add_pod(host, f"p{number}")
            whole = (processor_time(agent.pid) - began) / PODS
            url = f"http://127.0.0.1:{AGENT_PORT}/metrics"
            waits, cost = [], processor_time(agent.pid)
            for _ in range(20):
                asked = time.perf_counter()
                http_request(url, namespace=host.namespace)
                waits.append(time.perf_counter() - asked)
            cost = (processor_time(agent.pid) - cost) / len(waits)
        finally:
            bed.stop()
    yield _share("counting of an ADD", per_call(_counted_add()), whole)
    yield _page(f"/metrics of netplugin, {PODS} pods", waits, cost)


def _counted_add() -> Callable[[], None]:
    calls, stages = RequestStats(), AddStages()

    def count() -> None:
        began = time.monotonic()
        stages.begin()
        for stage in STAGES:
            with stages.timed(stage):
                pass
        stages.note("lock", time.monotonic() - began)
        calls.count(200, time.monotonic() - began, "ADD")

    return count


def _share(what: str, counting: float, whole: float) -> Row:
    return Row(
        what=what,
        ours=counting * 1e6,
        unit="us",
        reference=whole * 1e6,
        ratio=counting / whole,
        note=f"processor time; reference: all of it; target ratio <= {TARGET:g}",
    )


def _page(what: str, waits: list[float], cost: float) -> Row:
    return Row(
        what=what,
        ours=sorted(waits)[len(waits) // 2] * 1e3,
        unit="ms",
        note=f"median wait; {cost * 1e3:.3g} ms of processor time, "
        f"{cost / SCRAPE:.2%} of one at a scrape in {SCRAPE:g} s",
    )
