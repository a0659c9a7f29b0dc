"""What an agent holds of a cluster of 100 000 endpoints: its memory, and the time of its restart.

20 tenants have 5 networks each, with 1 000 endpoints on each of them, on 1 000 hosts. Records are
written straight into a real etcd. A process of its own then does what an agent does with them: it
reads the store (`state.watch`), folds the records into Worlds (`netplugin.world.builder`) and
computes the flows of both bridges (`ofnet.desired`); it has 10 pods, all of one tenant. Switch and
kernel are left out. Beside it stands the same process that holds everything, as agents in clusters
of Kubernetes do.

A restart is the time from the start of the process until its flows are computed; beside it stands
the processor time of that, which other work on the machine hardly alters.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

import uvloop

from bench.crowds import HERE, PODS, Cluster, seed
from bench.objects import rss
from bench.stores import client
from bench.table import Row, show
from core.tasks import background
from daemons.collector import tune_garbage_collector
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.world import Bridge, FwdMode, Vtep
from state.watch import Changed, Event, RecordFeed, Removed, ScopeChanged
from state.watch_scope import WatchScope
from tests.bed.etcd import Etcd

CLUSTER: Final = Cluster(tenants=20, networks=5, endpoints=100_000, hosts=1_000)
MEMORY_TARGET: Final = 150.0
RESTART_TARGET: Final = 1_000.0
RESTARTS: Final = 5
_CHILD: Final = "import gc; gc.disable(); from bench.held import main; main()"
"""An agent starts without the garbage collector, too (`netplugin.entry`)."""


def rows() -> Iterable[Row]:
    """Measure on a private etcd."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        etcd = Etcd(Path(directory))
        etcd.start()
        try:
            asyncio.run(seed(etcd.url, CLUSTER))
            yield from _measure(etcd.url)
        finally:
            etcd.kill()


def _measure(url: str) -> Iterator[Row]:
    every = [_restart(url, "all") for _ in range(RESTARTS)]
    ours = [_restart(url, "concerned") for _ in range(RESTARTS)]
    note = f"{CLUSTER.endpoints} endpoints, {PODS} pods; reference: everything is held"
    figures = (
        ("agent's records and flows, restart", "ms", RESTART_TARGET),
        ("its processor time", "ms", RESTART_TARGET),
        ("its memory then", "MiB", MEMORY_TARGET),
        ("its highest memory", "MiB", MEMORY_TARGET),
        ("endpoints held", "", None),
        ("flows wanted", "", None),
    )
    for (what, unit, target), mine, theirs in zip(figures, min(ours), min(every), strict=True):
        goal = "" if target is None else f"target {target:g}; "
        yield Row(
            what=what,
            ours=mine,
            unit=unit,
            reference=theirs,
            ratio=theirs / mine,
            note=goal + note,
        )


def _restart(url: str, which: str) -> tuple[float, ...]:
    """Return a process's milliseconds, those of its processor, MiB, at most, endpoints, flows."""
    began = time.monotonic()
    words = [sys.executable, "-c", _CHILD, url, which]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as one:
        try:
            if one.stdout is None:
                raise RuntimeError("the agent has no pipe")
            endpoints, flows, busy = map(float, one.stdout.readline().split())
            took = (time.monotonic() - began) * 1000
            return took, busy, rss(one.pid), _highest(one.pid), endpoints, flows
        finally:
            one.kill()


def _highest(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (one for one in lines if one.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def _hold(url: str, which: str) -> None:
    tune_garbage_collector()
    store = client("etcd", url)
    scope = WatchScope(HERE) if which == "concerned" else None
    if scope is not None:  # what the host's journal says
        scope.follow(lambda: [CLUSTER.endpoint(number).network for number in range(PODS)])
    feed = RecordFeed(store, scope=scope)
    world = WorldBuilder(HERE, FwdMode.ROUTING)
    async with background("records", feed.run()):
        while not feed.complete:
            for event in await feed.take(500):
                _apply(world, event)
        _connect(world)
        desired = {bridge: Desired(bridge) for bridge in Bridge}
        for bridge, flows in desired.items():
            flows.update(world.take(bridge)[0], EVERYTHING)
        held = len(world.vxlan.local) + len(world.vxlan.remote)
        wanted = sum(len(flows.held) for flows in desired.values())
        print(held, wanted, time.process_time() * 1000, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    await store.close()


def _apply(world: WorldBuilder, event: Event) -> None:
    if isinstance(event, ScopeChanged):
        world.networks.hold(event.networks)
    elif isinstance(event, Changed):
        world.put(event.record)
    elif isinstance(event, Removed):
        world.remove(event.record)


def _connect(world: WorldBuilder) -> None:
    """Do what the host's side does: a port for each pod, a tunnel to each host."""
    for number, record in enumerate(world.endpoint_records.here(), start=1):
        world.put_port(record.key, LocalPort(record=record, ofport=number, number=number))
    hosts = sorted(world.peers.tunnel_ends())
    world.vxlan.set_vteps(
        {
            label: Vtep(host=label, ip=IPv4Address("192.0.2.1") + number, ofport=1_000 + number)
            for number, label in enumerate(hosts)
        }
    )
    world.set_complete()


def main() -> None:
    """Be an agent, or measure."""
    if len(sys.argv) > 1:
        uvloop.run(_hold(*sys.argv[1:]))
    else:
        show(rows())


if __name__ == "__main__":
    main()
