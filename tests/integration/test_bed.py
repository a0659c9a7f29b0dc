"""The test bed itself: what it starts works, and nothing of it is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core import keys
from objdb.api import Change, Put
from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.janitor import NETNS_DIR, Ledger, start_time
from tests.bed.netns import Namespace, answers, fresh_name
from tests.bed.ovs import OvsHost
from tests.bed.store import Store, client
from tests.bed.waiting import eventually

ROOT = Path(__file__).parents[2]

# a run that makes one of everything, says so, and waits to be killed
RUN = """
import pathlib, signal, sys
from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.janitor import process_janitor
from tests.bed.netns import Namespace
name, directory = sys.argv[1], pathlib.Path(sys.argv[2])
process_janitor().watch_dir(directory)
directory.mkdir()
inside = Namespace(name).create()
daemon = Daemon(["sleep", "600"], log=directory / "log", namespace=inside)
daemon.start()
print(daemon.pid, inside.popen(["sleep", "600"]).pid, flush=True)
signal.pause()
"""


@pytest.mark.store
@pytest.mark.stores("etcd", "consul")
async def test_a_store_keeps_its_data_when_killed(store: Store) -> None:
    backend = client(store)
    await backend.commit([Change((), (Put(keys.HOSTS + "a", b"v"),))])
    await backend.close()
    before = store.revision()
    store.kill()
    with pytest.raises(OSError, match="refused"):
        store.revision()
    await asyncio.to_thread(store.start)
    assert store.revision() == before
    assert store.entries(keys.ROOT) == {keys.HOSTS + "a": b"v"}
    store.delete(keys.HOSTS + "a")
    assert store.entries(keys.ROOT) == {}
    assert store.revision() > before


@pytest.mark.store
@pytest.mark.stores("etcd")
def test_a_paused_daemon_answers_nothing_until_it_is_resumed(store: Store) -> None:
    store.pause()
    assert not answers(f"{store.url}/health")
    store.resume()
    eventually(lambda: answers(f"{store.url}/health"), "etcd answers")


@pytest.mark.ovs
def test_a_switch_is_private_to_its_namespace(ovs: OvsHost) -> None:
    ovs.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
    ovs.ofctl("add-flow", "br0", "table=3,priority=7,actions=drop")
    assert "table=3" in ovs.ofctl("dump-flows", "br0")
    assert "br0" in ovs.namespace.run(["ip", "link"]).stdout
    assert "br0" not in subprocess.check_output(["ip", "link"], text=True)
    assert ovs.appctl("version").startswith("ovs-vswitchd")


@pytest.mark.ovs
def test_a_switch_comes_back_with_its_bridges(ovs: OvsHost) -> None:
    ovs.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
    ovs.kill()
    ovs.start()
    assert ovs.vsctl("list-br").split() == ["br0"]


@pytest.mark.system
def test_a_cluster_connects_pods_and_takes_them_back(bed: Bed) -> None:
    near, far = (bed.add_pod(host, f"on-{host.label}") for host in bed.hosts)
    eventually(lambda: near.ping(far.address), "pods on two hosts reach each other")
    assert near.loses_nothing_to(far.address, count=3)
    bed.delete_pod(far)
    assert near.ping(far.address) is None
    bed.delete_pod(near)
    bed.netctl("net", "rm", "default-net")


@pytest.mark.system
def test_a_host_that_is_cut_off_comes_back(bed: Bed) -> None:
    near, far = (bed.add_pod(host, f"on-{host.label}") for host in bed.hosts)
    eventually(lambda: near.ping(far.address), "pods on two hosts reach each other")
    bed.fabric.cut(bed.hosts[1].link)
    assert near.ping(far.address) is None
    bed.fabric.heal(bed.hosts[1].link)
    eventually(lambda: near.ping(far.address), "pods reach each other again")


@pytest.mark.system
def test_a_stopped_cluster_leaves_nothing(bed_dir: Path) -> None:
    before = set(NETNS_DIR.iterdir()) if NETNS_DIR.exists() else set()
    bed = Bed(bed_dir).start()
    bed.netctl("net", "create", "--subnet=10.20.0.0/16", "default-net")
    bed.add_pod(bed.hosts[0], "p1")
    daemons = [bed.store, bed.netmaster, *bed.agents, *(host.ovs.vswitchd for host in bed.hosts)]
    bed.stop()
    assert not any(daemon.running for daemon in daemons)
    ours = {path for path in NETNS_DIR.iterdir() if path.name.startswith(f"ct{os.getpid()}-")}
    assert ours <= before


def test_a_killed_run_leaves_nothing(bed_dir: Path) -> None:
    name, directory = fresh_name("killed"), bed_dir / "made"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, name, directory], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pids = [int(pid) for pid in run.stdout.readline().split()]
        assert len(pids) == 2
        assert (NETNS_DIR / name).exists()
        run.send_signal(signal.SIGKILL)
    eventually(lambda: not (NETNS_DIR / name).exists(), "namespace gone")
    eventually(lambda: not directory.exists(), "directory gone")
    eventually(lambda: not any(map(_lives, pids)), "processes gone")


def test_a_ledger_sweeps_exactly_what_it_names(bed_dir: Path) -> None:
    ledger = Ledger(bed_dir / "ledger")
    kept, swept = Namespace(fresh_name("kept")), Namespace(fresh_name("swept"), keeper=ledger)
    kept.create()
    swept.create()
    bystander = Daemon(["sleep", "600"], log=bed_dir / "bystander.log")
    bystander.start()
    doomed = Daemon(["sleep", "600"], log=bed_dir / "doomed.log", keeper=ledger)
    doomed.start()
    try:
        ledger.sweep()
        assert not doomed.running
        assert bystander.running
        assert (kept.path.exists(), swept.path.exists()) == (True, False)
        assert not ledger.path.exists()
    finally:
        bystander.kill()
        kept.delete()


def test_a_recycled_process_id_is_spared(bed_dir: Path) -> None:
    ledger = Ledger(bed_dir / "ledger")
    ledger.path.write_text(f"pid {os.getpid()} 1\n")
    assert start_time(os.getpid()) != "1"
    ledger.sweep()


def test_a_daemon_that_ends_at_once_shows_its_log(bed_dir: Path) -> None:
    daemon = Daemon(["sh", "-c", "echo no luck; exit 3"], log=bed_dir / "log", ready=lambda: False)
    with pytest.raises(RuntimeError, match=r"(?s)status 3.*no luck"):
        daemon.start()


def _lives(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
