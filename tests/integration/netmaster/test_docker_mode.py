"""A master in mode docker, and one in swarm mode, with a stand-in for the engine."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import keys
from core.ids import GroupName, NetworkName, TenantName
from objdb.api import Change, Delete, Put
from state import codec
from state.records import DocknetRecord
from tests.bed.docker_stand_in import Refusal, StandIn
from tests.bed.master import Answer, Master
from tests.bed.store import Store, client
from tests.bed.waiting import eventually

pytestmark = pytest.mark.store

MODES = ("--netmode", "vlan", "--fwdmode", "bridge")
NETWORK = {
    "tenantName": "default",
    "networkName": "n1",
    "encap": "vlan",
    "subnet": "10.1.1.0/24",
    "gateway": "10.1.1.254",
}
GROUP = {"tenantName": "default", "groupName": "g1", "networkName": "n1"}


class DockerMaster:
    """A master, its store and the engine of its host."""

    def __init__(self, directory: Path, store: Store, engine: StandIn, mode: str) -> None:
        self.store = store
        self.engine = engine
        named = ("--plugin-name", "contiv:1", "--docker-socket", str(engine.socket))
        self.master = Master(directory, store, flags=("--mode", mode, *MODES, *named))

    def post(self, path: str, body: object) -> Answer:
        return self.master.ask("POST", f"/api/v1/{path}/", body)

    def delete(self, path: str) -> Answer:
        return self.master.ask("DELETE", f"/api/v1/{path}/")

    def records(self) -> dict[str, str]:
        """Return docker's ids as the store has them, by the ends of their keys."""
        found = self.store.entries(keys.DOCKNETS)
        return {
            key.removeprefix(keys.DOCKNETS): json.loads(value)["docknetUUID"]
            for key, value in found.items()
        }

    def held(self) -> dict[str, str]:
        """Return docker's ids by name."""
        return {name: network["Id"] for name, network in self.engine.networks.items()}


@pytest.fixture
def mode() -> str:
    return "docker"


@pytest.fixture
def docker(bed_dir: Path, store: Store, mode: str) -> Iterator[DockerMaster]:
    with StandIn(bed_dir / "docker.sock") as engine:
        it = DockerMaster(bed_dir, store, engine, mode)
        try:
            it.master.start()
            yield it
            assert "Traceback" not in it.master.log_text()
        finally:
            it.master.kill()


def test_docker_follows_what_is_done(docker: DockerMaster) -> None:
    assert docker.post("networks/default:n1", NETWORK).status == 200
    assert docker.post("endpointGroups/default:g1", GROUP).status == 200
    held = docker.held()
    assert docker.records() == {"default.n1.": held["n1"], "default.n1.g1": held["g1"]}
    assert {network["Driver"] for network in docker.engine.networks.values()} == {"contiv:1"}
    assert docker.delete("endpointGroups/default:g1").json() == "default:g1"
    assert docker.delete("networks/default:n1").json() == "default:n1"
    assert (docker.records(), docker.held()) == ({}, {})


def test_what_docker_refuses_does_not_come_about_nor_go(docker: DockerMaster) -> None:
    docker.engine.refusal = Refusal(500, b'{"message":"no such driver"}')
    answer = docker.post("networks/default:n1", NETWORK)
    assert (answer.status, answer.text) == (500, "Error response from daemon: no such driver")
    assert docker.master.ask("GET", "/api/v1/networks/").json() == []
    docker.engine.refusal = None
    assert docker.post("networks/default:n1", NETWORK).status == 200
    docker.engine.refusal = Refusal(403, b'{"message":"n1 has active endpoints"}')
    answer = docker.delete("networks/default:n1")
    assert (answer.status, answer.text) == (
        500,
        "Error response from daemon: n1 has active endpoints",
    )
    assert docker.records() == {"default.n1.": docker.held()["n1"]}


def test_a_master_killed_while_docker_works_leaves_nothing_there(docker: DockerMaster) -> None:
    engine = docker.engine
    engine.gate.clear()
    asking = threading.Thread(target=_ask_in_vain, args=(docker,))
    asking.start()
    eventually(lambda: "n1" in engine.networks, "docker has the network")
    docker.master.kill()
    asking.join()
    engine.gate.set()
    docker.master.start()
    eventually(lambda: engine.networks == {}, "docker has forgotten the network")
    assert docker.post("networks/default:n1", NETWORK).status == 200
    assert docker.records() == {"default.n1.": docker.held()["n1"]}


@pytest.mark.parametrize("mode", ["swarm-mode"])
async def test_a_swarm_keeps_what_its_docker_maps(docker: DockerMaster) -> None:
    assert docker.post("networks/default:n1", NETWORK).status == 200
    assert docker.post("endpointGroups/default:g1", GROUP).status == 200
    for group in (None, GroupName("g1")):
        await _map(docker, group)
    answer = docker.delete("endpointGroups/default:g1")
    assert (answer.status, answer.text) == (
        500,
        "cannot delete group g1 mapped to docker network f00",
    )
    await _map(docker, GroupName("g1"), mapped=False)
    assert docker.delete("endpointGroups/default:g1").status == 200
    answer = docker.delete("networks/default:n1")
    assert answer.text == "cannot delete network n1 mapped to docker network f00"
    await _map(docker, None, mapped=False)
    assert docker.delete("networks/default:n1").status == 200
    assert docker.engine.calls == []


async def _map(docker: DockerMaster, group: GroupName | None, *, mapped: bool = True) -> None:
    """Write a record as an agent does, or take it away, and wait until the master has seen it."""
    tenant, network = TenantName("default"), NetworkName("n1")
    record = DocknetRecord(tenant=tenant, network=network, group=group, uuid="f00")
    key = keys.docknet(record.id)
    backend = client(docker.store)
    rebuilt = docker.master.log_text().count("view rebuilt")
    try:
        op = Put(key, codec.encode(record)) if mapped else Delete(key)
        await backend.commit([Change((), (op,))])
    finally:
        await backend.close()
    eventually(
        lambda: docker.master.log_text().count("view rebuilt") > rebuilt,
        "the master has seen what an agent wrote",
    )


def _ask_in_vain(docker: DockerMaster) -> None:
    with pytest.raises(OSError, match=r".*"):
        docker.post("networks/default:n1", NETWORK)
