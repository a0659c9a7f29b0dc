"""CNI ADD and DEL as a runtime sees them, beside Debian's `bridge` + `host-local` plugins.

The whole system runs: etcd and netmaster, an agent, Open vSwitch (userspace datapath). Calls take
turns with the reference, one at a time, started directly in the host's network namespace. What is
timed is spawn to exit; a DEL of ours answers before the veth and the port are gone, the reference
waits for its veth.
"""

import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.table import Row, show
from tests.bed.cluster import Bed
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Sandbox, new_sandbox

ROUNDS = 60
WARM_UP = 5
DEBIAN = Path("/usr/lib/cni")
NETWORK = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
TARGETS = {"ADD": 2.0, "DEL": 1.0}


def rows() -> Iterable[Row]:
    """Measure on one simulated host."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=1).start()
        try:
            bed.netctl("net", "create", *NETWORK)
            yield from _table(_measure(bed, Path(directory)))
        finally:
            bed.stop()


def _measure(bed: Bed, directory: Path) -> dict[tuple[str, str], list[float]]:
    host = bed.hosts[0]
    plugins = {
        "ours": (bed.runtime.plugin, bed.conf(host)),
        "theirs": (DEBIAN / "bridge", _bridge_conf(directory)),
    }
    times: dict[tuple[str, str], list[float]] = {}
    with _inside(host.namespace):
        for turn in range(ROUNDS + WARM_UP):
            sandboxes = {who: new_sandbox(who, Namespace(fresh_name(who))) for who in plugins}
            try:
                for verb in ("ADD", "DEL"):
                    for who, (plugin, conf) in plugins.items():
                        took = _call(plugin, verb, conf, sandboxes[who])
                        if turn >= WARM_UP:
                            times.setdefault((who, verb), []).append(took * 1000)
            finally:
                for sandbox in sandboxes.values():
                    sandbox.namespace.delete()
    return times


def _call(plugin: Path, verb: str, conf: dict[str, Any], sandbox: Sandbox) -> float:
    env = {
        "PATH": os.environ["PATH"],
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": sandbox.container_id,
        "CNI_NETNS": str(sandbox.namespace.path),
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(plugin.parent),
        "CNI_ARGS": sandbox.args(),
    }
    stdin = json.dumps(conf).encode()
    began = time.perf_counter()
    done = subprocess.run([str(plugin)], input=stdin, env=env, capture_output=True, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{plugin.name} {verb}: {done.stdout!r} {done.stderr!r}")
    return took


def _bridge_conf(directory: Path) -> dict[str, Any]:
    return {
        "cniVersion": "1.0.0",
        "name": "reference",
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(directory / "host-local"),
            "ranges": [[{"subnet": "10.99.0.0/16"}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }


def _table(times: dict[tuple[str, str], list[float]]) -> Iterator[Row]:
    for verb, target in TARGETS.items():
        for name, rank in (("p50", 0.50), ("p99", 0.99)):
            ours, theirs = (_at(times[who, verb], rank) for who in ("ours", "theirs"))
            yield Row(
                what=f"CNI {verb} {name}, one at a time",
                ours=ours,
                unit="ms",
                reference=theirs,
                ratio=theirs / ours,
                note=f"n={ROUNDS}; target p50 ratio {1 / target:g}; reference: bridge + host-local",
            )


def _at(series: list[float], rank: float) -> float:
    ordered = sorted(series)
    return ordered[min(len(ordered) - 1, int(len(ordered) * rank))]


@contextmanager
def _inside(namespace: Namespace) -> Iterator[None]:
    """Put this thread, and the processes it starts, into a host's network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(namespace.path, os.O_RDONLY)
    try:
        if libc.setns(there, 0):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace.name}")
        yield
    finally:
        libc.setns(home, 0)
        os.close(there)
        os.close(home)


if __name__ == "__main__":
    show(rows())
