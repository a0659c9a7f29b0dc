"""A store that goes back under running agents: how long until all is right again.

Pods run on two hosts, half of them unknown to the backup. Timed are, from the moment at which the
restored store answers, or at which a master leads on the one that a dump was loaded into: until
every running pod has its record again, with its own address; until both hosts have applied all and
report no fault; until a pod that was asked for at once on each host has its network.

No other address is granted for the 3 s in which hosts claim those of their running pods
(`netmaster.hosts.claim_window`), so that neither of the last two can be faster.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from bench.table import Row, show
from core import keys
from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.etcd import Etcd
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.pods import CniFailed, Pod
from tests.bed.store import STORES
from tests.bed.waiting import eventually

TARGET: Final = 5.0
ROUNDS: Final = 5
PODS: Final = 5
"""On each host, before the backup and once more after it."""
PATIENCE: Final = 60.0

Times = dict[str, float]


def rows() -> Iterable[Row]:
    """Measure on each kind of store."""
    for kind in STORES:
        for what, go_back in (("restored", _restored), ("dumped, emptied, loaded", _loaded)):
            with _bed(kind) as bed:
                rounds = [_measure(bed, go_back, number) for number in range(ROUNDS)]
            yield from _rows(f"{kind} {what}", rounds)


def _rows(what: str, rounds: list[Times]) -> Iterator[Row]:
    for moment in rounds[0]:
        taken = sorted(times[moment] for times in rounds)
        yield Row(
            what=f"{what}: {moment}",
            ours=taken[-1] * 1000,
            unit="ms",
            note=f"slowest of {ROUNDS}, median {taken[ROUNDS // 2] * 1000:.0f}, {4 * PODS} pods"
            f"; target {TARGET * 1000:g} at most",
        )


@contextmanager
def _bed(kind: str) -> Iterator[Bed]:
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), store=kind).start()
        try:
            subnet = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1")
            bed.netctl("net", "create", *subnet, "default-net")
            yield bed
        finally:
            bed.stop()


def _measure(bed: Bed, go_back: Callable[[Bed, Callable[[], None]], Times], number: int) -> Times:
    """Run pods, let the store go back, and time how all becomes right; end the pods."""
    _run_pods(bed, f"old{number}")
    times = go_back(bed, lambda: _run_pods(bed, f"later{number}"))
    began = time.monotonic()
    running = {pod.sandbox.container_id: pod.address for pod in bed.pods}

    def awaited(check: Callable[[], object], what: str) -> float:
        eventually(check, what, within=PATIENCE)
        return time.monotonic() - began

    with ThreadPoolExecutor(len(bed.hosts) + 2) as pool:
        new = [pool.submit(_new_pod, bed, host) for host in bed.hosts]
        claimed = pool.submit(awaited, lambda: running.items() <= _stored(bed).items(), "claims")
        added = [pod.result() for pod in new]
        connected = time.monotonic() - began
        applied = awaited(lambda: _applied(bed), "hosts have applied all")
        times |= {"claimed": claimed.result(), "new pods": connected, "hosts": applied}
    addresses = list(_stored(bed).values())
    if len(set(addresses)) < len(addresses) or running.items() - _stored(bed).items():
        raise RuntimeError(f"an address is held twice, or was taken from a pod: {addresses}")
    if not eventually(lambda: added[0].ping(added[1].address), "new pods reach each other"):
        raise RuntimeError("new pods do not reach each other")
    for pod in list(bed.pods):
        bed.delete_pod(pod)
    return times


def _restored(bed: Bed, run_more: Callable[[], None]) -> Times:
    """Restore a backup of the store's own; return when the store answers again."""
    store = bed.store
    if isinstance(store, Etcd):
        file = store.save()
        run_more()
        store.restore(file)
    else:
        saved = store.save()
        run_more()
        store.restore(saved)
    return {}


def _loaded(bed: Bed, run_more: Callable[[], None]) -> Times:
    """Load a dump into an empty store; return when a master leads, and how long it started."""
    backup = _netmaster(bed, "dump")
    run_more()
    bed.netmaster.stop()
    bed.store.empty()
    _netmaster(bed, "load", text=backup)
    started = time.monotonic()
    bed.netmaster.start(within=PATIENCE)
    return {"start of the master": time.monotonic() - started}


def _netmaster(bed: Bed, command: str, *, text: str = "") -> str:
    words = [*bed.fabric.namespace.enter, str(PROGRAMS / "netmaster"), command, *bed.store_flags()]
    done = subprocess.run(words, check=True, input=text, capture_output=True, text=True, timeout=60)
    return str(done.stdout)


def _run_pods(bed: Bed, name: str) -> None:
    for number in range(PODS):
        for host in bed.hosts:
            bed.add_pod(host, f"{name}-{host.label}-{number}")


def _new_pod(bed: Bed, host: Host) -> Pod:
    """Return a new pod; a runtime tries again as well."""
    give_up_at = time.monotonic() + PATIENCE
    while True:
        try:
            return bed.add_pod(host, f"new-{host.label}")
        except CniFailed:
            if time.monotonic() > give_up_at:
                raise


def _stored(bed: Bed) -> Mapping[str, str]:
    """Return the address of each endpoint that the store has."""
    records = map(json.loads, bed.store.entries(keys.ENDPOINTS).values())
    return {record["endpointID"]: record["ipAddress"] for record in records}


def _applied(bed: Bed) -> bool:
    """Tell whether all hosts are registered, without faults, and have applied all."""
    try:
        status, body = http_request(f"{bed.url}/hosts", namespace=bed.fabric.namespace)
    except OSError:
        return False
    hosts = json.loads(body) if status == HTTPStatus.OK else []
    return len(hosts) == len(bed.hosts) and all(
        host["registered"] and host["applied"] and not host["errors"] for host in hosts
    )


if __name__ == "__main__":
    show(rows())
