"""A swarm of two real docker engines: services on our networks, by the managed plugin.

Run by `make swarm-check`: each engine is a node with the plugin that `make docker-plugin` builds,
in front of the agent of its host. The kernel here may lack ip_vs, by which docker forwards what is
sent to the address of a service (VIP); the address must be granted to nothing else all the same.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.bed.cluster import ROOT, Bed
from tests.bed.docker import ask
from tests.bed.engines import PLUGIN, SWARM, Engine
from tests.bed.images import IMAGE
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.docker import leftovers

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

SOON = 120.0
"""Seconds in which a swarm, which retries at its leisure, does what it is asked."""
PATIENCE = 40.0
"""Seconds without an answer after which docker does without a driver, and some more."""
PORT = "7789"
"""Of docker's own VXLAN: 4789 is ours."""
NET = "snet"
SUBNET = ("--subnet", "10.79.0.0/24", "--gateway", "10.79.0.254")
DRIVER = ("-d", f"{PLUGIN}:latest", "--ipam-driver", f"{PLUGIN}:latest", "--scope", "swarm")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the managed plugin."""
    out = tmp_path_factory.mktemp("plugin")
    subprocess.run([ROOT / "scripts" / "docker-plugin", out], check=True)
    return out


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path], store_kind: str, plugin: Path) -> Iterator[Bed]:
    """Run two hosts whose engines are a manager and a worker."""
    directory = next(bed_dirs)
    directory.mkdir()
    flags = {"netplugin": ("--leak-grace", "3")}
    bed = Bed(directory, 2, store=store_kind, flags=flags, engines=(), docker_mode=SWARM).start()
    try:
        manager, worker = bed.engines
        for engine in bed.engines:
            engine.install_plugin(plugin)
        own = manager.address_of_host
        manager.docker("swarm", "init", "--advertise-addr", own, "--data-path-port", PORT)
        token = manager.docker("swarm", "join-token", "-q", "worker")
        joins = ("--token", token, "--advertise-addr", worker.address_of_host)
        worker.docker("swarm", "join", *joins, f"{own}:2377")
        eventually(lambda: len(ready_nodes(manager)) == 2, "both nodes are ready", within=SOON)
        yield bed
        assert unforeseen(bed) == []
    finally:
        bed.stop()


def ready_nodes(manager: Engine) -> list[str]:
    listed = manager.docker("node", "ls", "--format", "{{.ID}} {{.Status}}")
    return [line for line in listed.splitlines() if line.endswith("Ready")]


@dataclass(frozen=True)
class Task:
    """A task of a service."""

    id: str
    node: str
    state: str
    addresses: tuple[str, ...]
    container: str
    error: str


def tasks(manager: Engine, service: str) -> list[Task]:
    filters = quote(json.dumps({"service": [service]}))
    status, shown = ask(manager.socket, "GET", f"/tasks?filters={filters}")
    assert status == 200, shown
    return [
        Task(
            id=one["ID"],
            node=one.get("NodeID", ""),
            state=one["Status"]["State"],
            addresses=tuple(
                address.partition("/")[0]
                for attachment in one.get("NetworksAttachments") or []
                for address in attachment.get("Addresses") or []
            ),
            container=one["Status"].get("ContainerStatus", {}).get("ContainerID", ""),
            error=one["Status"].get("Err", ""),
        )
        for one in shown
    ]


def running(manager: Engine, service: str) -> list[Task]:
    return [task for task in tasks(manager, service) if task.state == "running"]


def vip(manager: Engine, service: str) -> str:
    shown = manager.inspect(service)
    (address,) = [one["Addr"] for one in shown["Endpoint"]["VirtualIPs"]]
    return str(address).partition("/")[0]


def engine_of(bed: Bed, task: Task) -> Engine:
    """Return the engine that runs a task."""
    manager, worker = bed.engines
    own = manager.docker("info", "--format", "{{.Swarm.NodeID}}")
    return manager if task.node == own else worker


def runs(manager: Engine, service: str, count: int) -> list[Task]:
    """Return the tasks of a service once so many run."""
    eventually(
        lambda: len(running(manager, service)) == count,
        f"{count} tasks of {service} run",
        within=SOON,
    )
    return running(manager, service)


@contextmanager
def network(manager: Engine, name: str, *words: str) -> Iterator[None]:
    manager.docker("network", "create", *DRIVER, *words, name)
    try:
        yield
    finally:
        eventually(
            lambda: manager.attempt("network", "rm", name).returncode == 0,
            f"{name} is removed",
            within=SOON,
        )


@contextmanager
def service(manager: Engine, name: str, net: str, *words: str) -> Iterator[None]:
    made = ("service", "create", "-d", "--name", name, "--network", net, "--no-resolve-image")
    manager.docker(*made, "--restart-delay", "1s", "--stop-grace-period", "1s", *words, IMAGE)
    try:
        yield
    finally:
        manager.docker("service", "rm", name)


def removed(bed: Bed, kind: str, name: str) -> None:
    """Remove a network or group once docker's is gone."""

    def is_gone() -> bool:
        bed.netctl(kind, "rm", name, check=False)
        return name not in bed.netctl(kind, "ls")

    eventually(is_gone, f"{name} is removed", within=SOON)


def nothing_left(bed: Bed) -> bool:
    kept = [*bed.store.entries("/contiv.io/oper/docknet/"), *bed.store.entries("/contiv.io/ipam/")]
    return not (leftovers(bed) or kept or bed.netctl("net", "ls", "-q", check=False).strip())


def test_tasks_of_two_hosts_reach_each_other_and_nothing_is_left(bed: Bed) -> None:
    manager, _ = bed.engines
    with network(manager, NET, *SUBNET), service(manager, "web", NET, "--replicas", "4"):
        made = runs(manager, "web", 4)
        assert len({task.node for task in made}) == 2
        for task in made:
            for other in made:
                engine, target = engine_of(bed, task), other.addresses[0]
                eventually(
                    lambda: engine.pings(task.container, target),  # noqa: B023 - waited for
                    f"{task.addresses} reaches {target}",
                    within=SOON,
                )
        own = vip(manager, "web")
        assert own not in {task.addresses[0] for task in made}
    eventually(lambda: nothing_left(bed), "nothing is left", within=SOON)


def test_a_network_or_group_that_exists_is_used_and_stays(bed: Bed) -> None:
    manager, _ = bed.engines
    bed.netctl("net", "create", "--subnet=10.80.0.0/24", "--gateway=10.80.0.1", "own")
    bed.netctl("group", "create", "-tag", "gold", "own", "team")
    tag = ("-o", "contiv-tag=gold", "--ipam-opt", "contiv-tag=gold")
    subnet = ("--subnet", "10.80.0.0/24", "--gateway", "10.80.0.1")
    try:
        eventually(lambda: "gold" in bed.netctl("group", "inspect", "team"), "the group is there")
        with (
            network(manager, "golden", *subnet, *tag),
            service(manager, "gold", "golden", "--replicas", "2", "--label", "tier=1"),
        ):
            made = runs(manager, "gold", 2)
            in_group = json.loads(bed.netctl("group", "inspect", "team"))["Oper"]["numEndpoints"]
            assert in_group == len(made)
            assert all(task.addresses[0].startswith("10.80.0.") for task in made)
            bed.netctl("group", "rm", "team", check=False)
            assert "team" in bed.netctl("group", "ls")
    finally:
        removed(bed, "group", "team")
        removed(bed, "net", "own")
    eventually(lambda: nothing_left(bed), "nothing is left", within=SOON)


def test_the_address_of_a_service_is_granted_to_nothing_else(bed: Bed) -> None:
    """However often netmaster, the manager and its agent begin anew."""
    manager, _ = bed.engines
    with network(manager, NET, *SUBNET), service(manager, "web", NET, "--replicas", "2"):
        runs(manager, "web", 2)
        own = vip(manager, "web")
        bed.netmaster.kill()
        bed.netmaster.start(within=SOON)
        manager.restart()
        bed.agents[0].kill()
        with service(manager, "more", NET, "--replicas", "20"):
            bed.agents[0].start(within=SOON)
            made = [*runs(manager, "more", 20), *runs(manager, "web", 2)]
            given = [own, vip(manager, "more"), *(task.addresses[0] for task in made)]
            assert vip(manager, "web") == own
            assert len(set(given)) == len(given), sorted(given)
            manager.docker("service", "scale", "-d", "more=3")
            runs(manager, "more", 3)
            manager.docker("service", "scale", "-d", "more=12")
            made = [*runs(manager, "more", 12), *runs(manager, "web", 2)]
            given = [own, vip(manager, "more"), *(task.addresses[0] for task in made)]
            assert len(set(given)) == len(given), sorted(given)
        assert not bed.netctl("ipam", "check").strip()
    eventually(lambda: nothing_left(bed), "nothing is left", within=SOON)


def test_an_engine_that_starts_without_its_agent_works_once_that_is_back(bed: Bed) -> None:
    manager, worker = bed.engines
    with network(manager, NET, *SUBNET), service(manager, "each", NET, "--mode", "global"):
        runs(manager, "each", 2)
        bed.agents[1].kill()
        worker.kill()
        worker.start(within=SOON)
        up = time.monotonic()
        eventually(
            lambda: time.monotonic() - up > PATIENCE, "docker would give a driver up", within=SOON
        )
        bed.agents[1].start(within=SOON)
        runs(manager, "each", 2)
        with service(manager, "web", NET, "--replicas", "2"):
            runs(manager, "web", 2)
            manager.docker("service", "scale", "-d", "web=6")
            made = runs(manager, "web", 6)
            assert {task.state for task in tasks(manager, "web")} == {"running"}
            assert len({task.node for task in made}) == 2
            one, other = running(manager, "each")
            engine, target = engine_of(bed, one), other.addresses[0]
            eventually(lambda: engine.pings(one.container, target), "tasks reach each other")
    eventually(lambda: nothing_left(bed), "nothing is left", within=SOON)
