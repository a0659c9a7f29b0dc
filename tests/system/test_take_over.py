"""A cluster of the original is taken over with its pods, host by host, and given back.

Pods of both hosts send to each other all the time, on a vxlan and on a vlan network. What the
original made is compared before and after: ports, their numbers, links, and its store.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bed.cluster import PROGRAMS
from tests.bed.hosts import Host
from tests.bed.original import CARD_MACS, PODS, VLAN, VXLAN, OriginalBed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.watcher import Watcher, both_ways, watching

pytestmark = [pytest.mark.system, pytest.mark.thorough]

PACE: Final = 0.01
"""Seconds between two datagrams on each way."""
LOST: Final = 10.0
"""Seconds of loss that are allowed on each way of a busy machine; another one loses less than 1."""
COLUMNS: Final = {
    "interface": "name,type,ofport,external_ids,options,mac_in_use",
    "port": "name,tag,vlan_mode,external_ids",
}


@pytest.fixture(params=["routing", "bridge"])
def left(request: pytest.FixtureRequest, bed_dir: Path) -> Iterator[OriginalBed]:
    """Make a cluster as the original has left it."""
    bed = OriginalBed(bed_dir, request.param)
    try:
        bed.start()
        yield bed
        assert unforeseen(bed) == []
    finally:
        bed.stop()


def made(host: Host) -> dict[str, Any]:
    """Return the ports of a host's bridges by name: what Open vSwitch has of them."""
    found: dict[str, Any] = {}
    for table, columns in COLUMNS.items():
        rows = json.loads(host.ovs.vsctl("-f", "json", f"--columns={columns}", "list", table))
        for name, *settings in rows["data"]:
            found.setdefault(name, []).extend(settings)
    return found


def run_import(bed: OriginalBed, *words: str) -> str:
    """Run the command where netmaster runs."""
    command = [str(PROGRAMS / "netmaster"), "import", *bed.store_flags(), *words]
    pairs = zip(bed.hosts, CARD_MACS, strict=True)
    macs = [f"--uplink-mac={host.label}={mac}" for host, mac in pairs]
    return bed.fabric.namespace.run([*command, f"--from-etcd={bed.store.url}", *macs]).stdout


def addresses(bed: OriginalBed) -> list[str]:
    show = ["ip", "-o", "-4", "address", "show", "dev", "eth0"]
    return [pod.namespace.run(show).stdout for pod in bed.pods]


def cached(pod: Pod) -> dict[str, Any]:
    """Return what a runtime would have kept of the ADD, had it been ours."""
    gateway = pod.address.rpartition(".")[0] + ".254"
    sandbox = {"name": "eth0", "mac": pod.mac, "sandbox": str(pod.namespace.path)}
    address = {"address": f"{pod.address}/24", "gateway": gateway, "interface": 0}
    route = {"dst": "0.0.0.0/0", "gw": gateway}
    result = {"interfaces": [sandbox], "ips": [address], "routes": [route]}
    return {"prevResult": {"cniVersion": pod.conf["cniVersion"], **result}}


def judge(watcher: Watcher, mode: str, step: str) -> None:
    """Hold the loss on each way against what is allowed, and say how much there was."""
    seconds = {lane: count * PACE for lane, count in watcher.lost().items()}
    print(f"{mode}: {step}: {max(seconds.values(), default=0.0):.2f} s lost on a way")  # noqa: T201 - measured
    assert all(lost <= LOST for lost in seconds.values()), seconds


def test_pods_go_on_through_the_take_over_and_the_way_back(left: OriginalBed) -> None:
    bed, mode = left, left.fwd_mode
    (a, av), (b, bv) = bed.original_pods
    before, had = [made(host) for host in bed.hosts], addresses(bed)
    kept = bed.original_keys()
    with watching(both_ways((a, b), (av, bv)), interval=PACE) as watcher:
        assert "to import: 4 endpoints" in run_import(bed, "--dry-run")
        assert run_import(bed).endswith("imported\n")
        bed.netmaster.start()
        for host, agent in zip(bed.hosts, bed.agents, strict=True):
            agent.start()
            watcher.goes_on()
            judge(watcher, mode, f"take-over of {host.label}")
        assert addresses(bed) == had
        for host, rows in zip(bed.hosts, before, strict=True):
            now = made(host)
            # but for the bridges' own ports, whose devices get names that the kernel takes
            kept_rows = {name: row for name, row in rows.items() if name not in (VXLAN, VLAN)}
            assert {name: now.get(name) for name in kept_rows} == kept_rows
        for agent in (*bed.agents, bed.netmaster):
            assert agent.terminate() == 0
        assert bed.original_keys() == kept
        for host in bed.hosts:
            bed.load_flows(host)
        watcher.goes_on()
        judge(watcher, mode, "the way back")
    bed.netmaster.start()
    for agent in bed.agents:
        agent.start()
    adopted_pods_are_like_others(bed)


def adopted_pods_are_like_others(bed: OriginalBed) -> None:
    """Have new pods and old ones reach each other; check and delete old ones as usual."""
    (a, av), (b, bv) = bed.original_pods
    near, _ = bed.hosts
    for old, network in ((b, "nvxlan"), (bv, "nvlan")):
        new = bed.add_pod(near, f"new-{network}", network=network)
        assert new.address not in {one.address for host in PODS for one in host}
        reached(new, old)
        reached(old, new)
        bed.delete_pod(new)
    for pod, bridge in ((a, VXLAN), (av, VLAN)):
        done = bed.runtime.call(
            "CHECK", near, pod.conf | cached(pod), pod.sandbox, netns=str(pod.namespace.path)
        )
        assert done.returncode == 0, done.stdout
        bed.delete_pod(pod)
        gone(near, bridge)
    assert bed.netctl("net", "inspect", "nvxlan").count('"containerID"') == 1


def reached(one: Pod, other: Pod) -> None:
    eventually(lambda: one.ping(other.address), f"{one.name} reaches {other.name}")


def gone(host: Host, bridge: str) -> None:
    """Wait until a bridge has no port of a pod."""
    eventually(
        lambda: "vvport" not in host.ovs.vsctl("list-ports", bridge), "the pods' ports are removed"
    )
