"""Clusters of growing size: what each further host costs. `make bench-scale`.

For each of `SCALE_SIZES` (hosts, "10 100 500 1000") a real etcd, three netmasters and as many
hollow agents (`bench.hollow`, `SCALE_AGENTS` to a process) run on this machine, with
`SCALE_ENDPOINTS` endpoints on each host, of one tenant for every ten hosts. Each figure stands
beside that of the size before: what an agent costs should not grow with the cluster. Latencies and
the mass restart share this machine's processors, and so grow with the number of agents on it. The
figures are drawn over the sizes in `build/scale.svg` (`bench.plot`). The hosts are known before
their agents start, process by process; the mass restart starts all at once.

Ends all its processes when it is ended itself, by SIGTERM too, and gives each step a time limit.
"""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench import stores
from bench.endpoints import Client
from bench.hollow import HOSTS_OF_TENANT, NETWORK, label_of, record_of, tenant_of
from bench.objects import rss
from bench.records import write
from bench.table import Row, show
from core import keys
from core.ids import NetworkName, TenantName, network_id
from objdb.api import Put
from state import codec
from tests.bed.etcd import Etcd
from tests.bed.master import Master

SIZES: Final = tuple(map(int, os.environ.get("SCALE_SIZES", "10 100 500 1000").split()))
ENDPOINTS: Final = int(os.environ.get("SCALE_ENDPOINTS", "10"))
AGENTS: Final = int(os.environ.get("SCALE_AGENTS", "50"))
LIMIT: Final = int(os.environ.get("SCALE_LIMIT", "900"))
"""Seconds for one step, such as the start of all agents."""
MASTERS: Final = 3
CLIENTS: Final = 8
IDLE: Final = 10.0
REST: Final = 0.1
"""Seconds for each agent between the start and the first figure."""
CHANGES: Final = 5
OPEN_FILES: Final = 65_536
PICTURE: Final = Path("build/scale.svg")
_LOGGER: Final = ("--logger=zap", "--log-level=error")
"""What docs/operations.md advises for etcd 3.4, whose default logger has one lock for its lines."""
_TICK: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured with so many agents; processor time in percent of one processor."""

    agent_cpu: float
    agent_memory: float
    master_cpu: float
    master_memory: float
    store_cpu: float
    idle_calls: float
    latency: float
    restart: float
    herd: float
    held: float


_NAMES: Final = (
    ("agent_cpu", "an idle agent's processor", "%"),
    ("agent_memory", "an agent's memory, its share of a process", "MiB"),
    ("held", "endpoints an agent holds", ""),
    ("master_cpu", "leader's processor, all idle", "%"),
    ("master_memory", "leader's memory", "MiB"),
    ("store_cpu", "etcd's processor, all idle", "%"),
    ("idle_calls", "calls of all agents to masters, idle", "1/s"),
    ("latency", "a new network until the last agent has its flows, p50", "ms"),
    ("restart", "all agents killed, until the last has its flows", "s"),
    ("herd", "calls in the busiest second after a master's restart", "1/s"),
)


class Agents:
    """The processes of hollow agents."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        """Start one process after the other, each when the agents before it are ready."""
        for first in range(0, self._size, AGENTS):
            self._launch(first)
            self.ask("ready")

    def start_at_once(self) -> float:
        """Start all; return the seconds until the last one is ready."""
        began = time.monotonic()
        for first in range(0, self._size, AGENTS):
            self._launch(first)
        self.ask("ready")
        return time.monotonic() - began

    def ask(self, *words: object) -> list[list[float]]:
        """Return the numbers that each process answers."""
        for process in self._processes:
            if process.stdin is None:
                raise RuntimeError("a process has no pipe")
            process.stdin.write(" ".join(map(str, words)) + "\n")
            process.stdin.flush()
        with _limited(f"answers to {words[0]}"):
            return [_numbers(process) for process in self._processes]

    def kill(self) -> None:
        """End all at once."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def _launch(self, first: int) -> None:
        count, pipe = min(AGENTS, self._size - first), subprocess.PIPE
        words = [sys.executable, "-m", "bench.hollow", self._url, str(first), str(count)]
        self._processes.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True))


def _numbers(process: "subprocess.Popen[str]") -> list[float]:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise RuntimeError(f"a process of agents ended with {process.wait()}")
    return [float(word) for word in line.split()]


@contextmanager
def _limited(what: str) -> Iterator[None]:
    def end(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"no {what} within {LIMIT} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def rows(sizes: Sequence[int], measured: dict[int, Figures]) -> Iterable[Row]:
    """Measure each size, beside the one before; put what was measured there."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before: Figures | None = None
    for size in sizes:
        now = measured[size] = _of(size)
        for name, what, unit in _NAMES:
            ours = getattr(now, name)
            reference = None if before is None else getattr(before, name)
            yield Row(
                what=what,
                ours=ours,
                unit=unit,
                reference=reference,
                ratio=reference / ours if reference and ours else None,
                note=f"{size} agents with {ENDPOINTS} endpoints each; reference: the size before",
            )
        before = now


def _of(size: int) -> Figures:
    with ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run"))
        )
        store = Etcd(directory)
        store.command += _LOGGER
        stack.callback(store.kill)
        store.start()
        masters = [
            Master(directory, store, name=f"netmaster{number}", leads=number == 0)
            for number in range(MASTERS)
        ]
        for master in masters:
            stack.callback(master.kill)
            master.start()
        asyncio.run(_fill(store.url, masters[0], size))
        agents = Agents(store.url, size)
        stack.callback(agents.kill)
        agents.start()
        return _figures(size, store, masters, agents)


def _figures(size: int, store: Etcd, masters: list[Master], agents: Agents) -> Figures:
    time.sleep(max(IDLE, size * REST))  # what agents put off at their start is over
    began, lead = time.monotonic(), masters[0]
    busy = sum(answer[0] for answer in agents.ask("usage"))
    others = [_cpu(one.pid) for one in (lead, store)]
    time.sleep(IDLE)
    took = time.monotonic() - began
    usage = agents.ask("usage")
    idle = _sum(agents.ask("calls", began, began + took))
    percent = 100 / took
    at_lead, at_store = (
        (_cpu(one.pid) - was) * percent for one, was in zip((lead, store), others, strict=True)
    )
    latency = sorted(_change(lead, agents, number) for number in range(CHANGES))
    held = _sum(agents.ask("held")) / size
    figures = Figures(
        agent_cpu=(sum(answer[0] for answer in usage) - busy) * percent / size,
        agent_memory=sum(answer[1] for answer in usage) / size,
        master_cpu=at_lead,
        master_memory=rss(lead.pid),
        store_cpu=at_store,
        idle_calls=idle / took,
        latency=latency[len(latency) // 2],
        restart=0.0,
        herd=_herd(masters[-1], agents),
        held=held,
    )
    agents.kill()
    return replace(figures, restart=agents.start_at_once())


def _sum(answers: list[list[float]]) -> float:
    return sum(answer[0] for answer in answers)


def _change(master: Master, agents: Agents, number: int) -> float:
    """Create a network; return the milliseconds until the last agent has taken it over."""
    name = f"change{number}"
    began = time.monotonic()
    _create(master, f"networks/tenant0:{name}", _network("tenant0", name, 200 + number))
    nid = network_id(NetworkName(name), TenantName("tenant0"))
    return (max(answer[0] for answer in agents.ask("seen", nid)) - began) * 1000


def _herd(master: Master, agents: Agents) -> float:
    """Restart a master; return the calls of the busiest second of the next thirty."""
    began = time.monotonic()
    master.kill()
    master.start()
    time.sleep(max(0.0, began + 30 - time.monotonic()))
    seconds = (_sum(agents.ask("calls", began + n / 2, began + n / 2 + 1)) for n in range(58))
    return max(seconds)


async def _fill(url: str, master: Master, size: int) -> None:
    """Create hosts, tenants, networks and all endpoints."""
    backend = stores.client("etcd", url)
    try:
        hosts = map(record_of, range(size))
        await write(backend, (Put(keys.host(one.label), codec.encode(one)) for one in hosts))
    finally:
        await backend.close()
    tenants = -(-size // HOSTS_OF_TENANT)
    for number in range(tenants):
        tenant = f"tenant{number}"
        _create(master, f"tenants/{tenant}", f'{{"tenantName":"{tenant}"}}')
        _create(master, f"networks/{tenant}:{NETWORK}", _network(tenant, NETWORK, 0))
    clients = [await Client.open("127.0.0.1", master.port) for _ in range(CLIENTS)]
    left = iter(range(size * ENDPOINTS))

    async def work(client: Client) -> None:
        for number in left:
            await client.post("/plugin/createEndpoint", _endpoint(number))

    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*map(work, clients))
    for client in clients:
        client.close()


def _create(master: Master, path: str, body: str) -> None:
    answer = master.ask("POST", f"/api/v1/{path}/", body)
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {answer.text}")


def _network(tenant: str, name: str, block: int) -> str:
    return (
        f'{{"tenantName":"{tenant}","networkName":"{name}","encap":"vxlan",'
        f'"subnet":"10.{block}.0.0/16","gateway":"10.{block}.255.254"}}'
    )


def _endpoint(number: int) -> bytes:
    host = number // ENDPOINTS
    container = f"{number:064x}"
    return (
        f'{{"TenantName":"{tenant_of(host)}","NetworkName":"{NETWORK}","ServiceName":"",'
        f'"EndpointID":"{container}","EPCommonName":"{container}",'
        f'"ConfigEP":{{"Container":"{container}","Host":"{label_of(host)}"}}}}'
    ).encode()


def _cpu(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def main() -> None:
    """Measure, and draw the figures over the sizes."""
    from bench import plot  # noqa: PLC0415 - matplotlib is there for `make bench-scale` alone

    measured: dict[int, Figures] = {}
    show(rows(SIZES, measured))
    series = {
        f"{what}, {unit}" if unit else what: [getattr(one, name) for one in measured.values()]
        for name, what, unit in _NAMES
    }
    plot.write(PICTURE, list(measured), series)
    print(f"drawn in {PICTURE}")


if __name__ == "__main__":
    main()
