"""Containers of real docker engines go on through a take-over, and their engines release them.

What the original leaves is made by this project's own daemons on a consul, whose keys are those of
the original; then the journals are removed, and the hosts are taken over onto an etcd.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import keys
from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.daemon import Daemon
from tests.bed.engines import Engine
from tests.bed.etcd import Etcd
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen

pytestmark = [pytest.mark.system, pytest.mark.thorough]

STORE_PORT = 2479
OWN = (
    *(keys.SCHEMA, keys.LINEAGE, keys.GROUP_ID_CURSOR, keys.GRANTS, keys.ANSWERS, keys.CHANGES),
    *(keys.HOSTS, keys.COMMITS, keys.AUTH, keys.CLEANUPS, keys.ABSENCES, keys.DOCKNET_DOUBTS),
    keys.COMPACTION,
)
"""What the original does not have in its store."""


@pytest.fixture
def bed(bed_dir: Path) -> Iterator[Bed]:
    """Run two hosts with engines and a network."""
    bed = Bed(bed_dir, 2, store="consul", engines=("--live-restore",)).start()
    try:
        bed.netctl("net", "create", "--subnet=10.1.0.0/24", "--gateway=10.1.0.254", "net1")
        for engine in bed.engines:
            eventually(lambda one=engine: "net1" in listed(one), "it is there")  # type: ignore[misc]
        yield bed
        assert unforeseen(bed) == []
    finally:
        bed.stop()


@pytest.fixture
def new_store(bed: Bed) -> Iterator[Etcd]:
    """Run the store that the cluster is taken over onto."""
    where, namespace = bed.dir / "new", bed.fabric.namespace
    store = Etcd(where, namespace, bed.fabric.address, STORE_PORT)
    store.start()
    yield store
    store.kill()


def listed(engine: Engine) -> list[str]:
    """Return the names of an engine's networks."""
    return engine.docker("network", "ls", "--format", "{{.Name}}").split()


def reaches(engine: Engine, container: str, target: str) -> None:
    eventually(lambda: engine.pings(container, target), f"{container} reaches {target}")


def move(daemon: Daemon, store: Etcd) -> None:
    """Have a daemon use another store from its next start on."""
    at = daemon.command.index("--consul")
    daemon.command[at : at + 2] = ["--etcd", store.url]


def test_containers_go_on_and_their_engines_release_them(bed: Bed, new_store: Etcd) -> None:
    one, two = bed.engines
    one.run("left", "net1")
    two.run("right", "net1")
    had = {one.address("left", "net1"), two.address("right", "net1")}
    reaches(one, "left", two.address("right", "net1"))
    bed.netmaster.stop()  # which gives its lock back
    for agent in bed.agents:
        agent.kill()
    for key in bed.store.entries(keys.ROOT):
        if key.startswith(OWN):
            bed.store.delete(key)
    source = f"--from-consul={bed.store.url}"
    command = [str(PROGRAMS / "netmaster"), "import", f"--etcd={new_store.url}", source]
    assert bed.fabric.namespace.run(command).stdout.endswith("imported\n")
    for host, daemon in ((None, bed.netmaster), *zip(bed.hosts, bed.agents, strict=True)):
        if host is not None:
            shutil.rmtree(host.dir / "data")
        move(daemon, new_store)
        daemon.start()
    reaches(one, "left", two.address("right", "net1"))
    reaches(two, "right", one.address("left", "net1"))
    one.run("new", "net1")
    assert one.address("new", "net1") not in had
    reaches(one, "new", two.address("right", "net1"))
    for engine, name in ((one, "left"), (one, "new"), (two, "right")):
        engine.docker("rm", "--force", name)
    eventually(lambda: not new_store.entries("/contiv.io/state/eps/"), "all are released")
    for host in bed.hosts:
        assert "vvport" not in host.ovs.vsctl("list-ports", "contivVxlanBridge")
