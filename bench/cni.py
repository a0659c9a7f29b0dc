"""CNI ADD and DEL as a runtime sees them, beside Debian's `bridge` + `host-local` plugins.

The whole system runs: etcd and netmaster, an agent, Open vSwitch (userspace datapath). Calls take
turns with the reference, one, ten or fifty at once, started directly in the host's network
namespace; one at a time also on a host that has pods of both already. What is timed is spawn to
exit; a DEL of ours answers before the veth and the port are gone, the reference waits for its veth.

The agent reaches netmaster and etcd by a link of its own: the bed's other way to them is through
the userspace switch, whose one thread is at that moment busy with the pod's port.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.table import Row, at, show
from tests.bed.cluster import Bed
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Sandbox, new_sandbox

CALLS = {1: 60, 10: 100, 50: 200}
"""How many calls are measured, by how many are made at once."""
WARM_UP = 5
PRESENT = 200
"""The pods of each that a full host has."""
DEBIAN = Path("/usr/lib/cni")
NETWORK = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
TARGETS = {"ADD": {1: 1.5, 10: 1.5, 50: 1.5}, "DEL": {1: 0.8, 10: 1.0, 50: 1.0}}
"""At most so many times the reference's time, by how many run at once."""


def rows() -> Iterable[Row]:
    """Measure on one simulated host."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=1).start()
        try:
            manage(bed)
            bed.netctl("net", "create", *NETWORK)
            runs = _Runs(bed, Path(directory))
            runs.measure(at_once=1, calls=WARM_UP)
            for at_once, calls in CALLS.items():
                yield from _table(at_once, runs.measure(at_once=at_once, calls=calls))
            with runs.present(PRESENT):
                yield from _table(1, runs.measure(at_once=1, calls=CALLS[1]), PRESENT)
        finally:
            bed.stop()


def manage(bed: Bed) -> None:
    """Join each host of a bed with its store and netmaster by a link of its own."""
    for host in bed.hosts:
        ends = (
            (host.namespace, "eth1", bed.fabric.address),
            (bed.fabric.namespace, host.label, host.address),
        )
        peer = ["peer", "name", host.label, "netns", bed.fabric.namespace.name]
        host.namespace.run(["ip", "link", "add", "eth1", "type", "veth", *peer])
        for namespace, link, other in ends:
            namespace.run(["ip", "link", "set", link, "up"])
            namespace.run(["ip", "route", "add", f"{other}/32", "dev", link])


Times = dict[tuple[str, str], list[float]]
"""Milliseconds, by who was called and what for."""
Sandboxes = Mapping[str, Sequence[Sandbox]]
"""By who connects them."""


class _Runs:
    """Calls of both plugins on one host."""

    def __init__(self, bed: Bed, directory: Path) -> None:
        self._host = bed.hosts[0]
        self._plugins = {
            "ours": (bed.runtime.plugin, bed.conf(self._host)),
            "theirs": (DEBIAN / "bridge", bridge_conf(directory)),
        }

    def measure(self, *, at_once: int, calls: int) -> Times:
        """Make as many ADDs, then as many DELs, and take turns in who begins."""
        # threads, and what they start, stand in the namespace of the one that made them
        return self._host.namespace.call(partial(self._measure, at_once, calls))

    @contextmanager
    def present(self, pods: int) -> Iterator[None]:
        """Have pods of both on the host, until the end of the body."""
        sandboxes = self._sandboxes(self._plugins, pods)
        try:
            self._host.namespace.call(partial(self._add, sandboxes))
            yield
        finally:
            _delete(sandboxes)

    def _add(self, sandboxes: Sandboxes) -> None:
        with ThreadPoolExecutor(max(CALLS)) as pool:
            for who, some in sandboxes.items():
                for _ in pool.map(partial(timed_call, *self._plugins[who], "ADD"), some):
                    pass

    def _sandboxes(self, who: Iterable[str], count: int) -> Sandboxes:
        return {
            one: [new_sandbox(one, Namespace(fresh_name(f"{one}{n}"))) for n in range(count)]
            for one in who
        }

    def _measure(self, at_once: int, calls: int) -> Times:
        times: Times = {}
        with ThreadPoolExecutor(at_once) as pool:
            for turn in range(calls // at_once):
                order = sorted(self._plugins, reverse=turn % 2 == 0)
                self._turn(pool, at_once, order, times)
        return times

    def _turn(self, pool: ThreadPoolExecutor, at_once: int, order: list[str], times: Times) -> None:
        sandboxes = self._sandboxes(order, at_once)
        try:
            for verb in ("ADD", "DEL"):
                for who in order:
                    took = pool.map(partial(timed_call, *self._plugins[who], verb), sandboxes[who])
                    times.setdefault((who, verb), []).extend(took)
        finally:
            _delete(sandboxes)


def _delete(sandboxes: Sandboxes) -> None:
    for sandbox in (one for some in sandboxes.values() for one in some):
        sandbox.namespace.delete()


def timed_call(plugin: Path, conf: dict[str, Any], verb: str, sandbox: Sandbox) -> float:
    """Return how many milliseconds a call of a plugin took. Raises RuntimeError if it failed."""
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
    took = (time.perf_counter() - began) * 1000
    if done.returncode:
        raise RuntimeError(f"{plugin.name} {verb}: {done.stdout!r} {done.stderr!r}")
    return took


def bridge_conf(directory: Path) -> dict[str, Any]:
    """Return the reference's network configuration; its state is in the directory."""
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


def _table(at_once: int, times: Times, present: int = 0) -> Iterator[Row]:
    crowd = "one at a time" if at_once == 1 else f"{at_once} at once"
    crowd += f", {present} present" if present else ""
    for verb, targets in TARGETS.items():
        for name, rank in (("p50", 0.50), ("p99", 0.99)):
            ours, theirs = (at(sorted(times[who, verb]), rank) for who in ("ours", "theirs"))
            judged = name == "p50" and not present
            goal = f"; target ratio {1 / targets[at_once]:.3g}" if judged else ""
            yield Row(
                what=f"CNI {verb} {name}, {crowd}",
                ours=ours,
                unit="ms",
                reference=theirs,
                ratio=theirs / ours,
                note=f"n={CALLS[at_once]}{goal}; reference: bridge + host-local",
            )


if __name__ == "__main__":
    show(rows())
