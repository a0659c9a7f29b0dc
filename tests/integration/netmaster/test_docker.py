"""The client of docker, against a real engine and against the stand-in.

The original's tests of docker networks, I1 to I5, are here. As there, networks have the drivers
that every engine has: ours is another part's.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contivmodel.objects import Tenant
from core.errors import Conflict
from netmaster.external.docker import DockerClient, DockerFailed
from netmaster.external.external_effects import ExternalEffects
from netmaster.plan.model import Plan
from netmaster.plan.objects import group, network, tenant
from netmaster.view import View
from state.records import DocknetRecord
from tests.bed.docker import Dockerd, ask
from tests.bed.docker_stand_in import Refusal, StandIn
from tests.bed.netns import Namespace, fresh_name
from tests.unit.netmaster.fake_gateway import FakeGateway
from tests.unit.netmaster.scene import a_group, a_network
from tests.unit.netmaster.term import Term, term

BRIDGE, DEFAULT = "bridge", "default"
BODY = {
    "CheckDuplicate": True,
    "Attachable": True,
    "EnableIPv6": False,
    "Options": {"tenant": "default", "encap": "vlan", "pkt-tag": "1"},
    "IPAM": {
        "Config": [{"Subnet": "10.1.1.0/24", "Gateway": "10.1.1.254"}],
        "Options": {"tenant": "default", "network": "n1"},
    },
}


@pytest.fixture(scope="module")
def dockerd(bed_dirs: Iterator[Path]) -> Iterator[Dockerd]:
    """Run an engine that the tests of this module share."""
    directory = next(bed_dirs)
    directory.mkdir()
    namespace = Namespace(fresh_name("docker")).create()
    dockerd = Dockerd(directory, namespace)
    dockerd.start()
    try:
        yield dockerd
    finally:
        dockerd.stop()
        namespace.delete()


@pytest.fixture
def stand_in(bed_dir: Path) -> Iterator[StandIn]:
    with StandIn(bed_dir / "docker.sock") as engine:
        yield engine


@pytest.fixture(params=["real", "stand-in"])
def engine(request: pytest.FixtureRequest) -> Path:
    """Give the socket of an engine; what holds of one must hold of the other."""
    found: Dockerd | StandIn = request.getfixturevalue(
        "dockerd" if request.param == "real" else "stand_in"
    )
    return found.socket


def bridges(socket: Path) -> DockerClient:
    return DockerClient(str(socket), BRIDGE, ipam_driver=DEFAULT)


def shown(socket: Path, name: str) -> Any:
    """Show a network as docker does; None if there is none of that name."""
    status, answer = ask(socket, "GET", f"/networks/{name}")
    return answer if status == 200 else None


@pytest.mark.parametrize("name", ["n1", "n1/blue"])
async def test_a_network_comes_is_taken_and_goes(engine: Path, name: str) -> None:
    docker = bridges(engine)
    uuid = await docker.create(name, BODY)
    found = shown(engine, name)
    assert (found["Id"], found["Driver"], found["IPAM"]["Driver"]) == (uuid, BRIDGE, DEFAULT)
    assert found["Options"] == BODY["Options"]
    assert found["IPAM"]["Options"] == {"tenant": "default", "network": "n1"}
    assert found["IPAM"]["Config"] == [{"Subnet": "10.1.1.0/24", "Gateway": "10.1.1.254"}]
    assert found["Attachable"] is True
    assert await docker.create(name, BODY) == uuid
    await docker.delete(name)
    assert shown(engine, name) is None
    await docker.delete(name)


async def test_a_name_is_no_part_of_a_name_nor_of_an_id(engine: Path) -> None:
    docker = bridges(engine)
    uuid = await docker.create("long-name", BODY)
    await docker.delete("name")
    await docker.delete(uuid[:12])
    assert shown(engine, "long-name")["Id"] == uuid
    await docker.delete("long-name")


async def test_another_drivers_network_is_in_the_way_and_stays(engine: Path) -> None:
    await bridges(engine).create("n1", BODY)
    ours = DockerClient(str(engine), "netplugin")
    with pytest.raises(Conflict, match=r"^network name used by another driver$"):
        await ours.create("n1", BODY)
    await ours.delete("n1")
    assert shown(engine, "n1")["Driver"] == BRIDGE
    await bridges(engine).delete("n1")


async def test_what_a_real_engine_refuses(dockerd: Dockerd) -> None:
    docker = bridges(dockerd.socket)
    await docker.create("n1", BODY)
    # docker 28 says "invalid pool request: " before
    overlaps = r"^Error response from daemon: (invalid pool request: )?Pool overlaps"
    with pytest.raises(DockerFailed, match=overlaps):
        await docker.create("n2", BODY)
    await docker.delete("n1")


async def test_an_engine_that_is_not_there(bed_dir: Path) -> None:
    socket = bed_dir / "docker.sock"
    text = f"Cannot connect to the Docker daemon at unix://{socket}. Is the docker daemon running?"
    for attempt in (bridges(socket).create("n1", BODY), bridges(socket).delete("n1")):
        with pytest.raises(DockerFailed) as refusal:
            await attempt
        assert str(refusal.value) == text


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (Refusal(403, b'{"message":"not yet"}'), "Error response from daemon: not yet"),
        (Refusal(500, b"{}"), "error during connect: "),
        (Refusal(201, b"[]"), "error during connect: "),
    ],
)
async def test_answers_that_are_no_success(stand_in: StandIn, refusal: Refusal, text: str) -> None:
    stand_in.refusal = refusal
    with pytest.raises(DockerFailed, match=text):
        await bridges(stand_in.socket).create("n1", BODY)


async def test_an_engine_that_says_nothing_is_not_waited_for(stand_in: StandIn) -> None:
    stand_in.gate.clear()
    docker = DockerClient(str(stand_in.socket), BRIDGE, timeout=0.2)
    with pytest.raises(DockerFailed, match="does not answer in time"):
        await docker.create("n1", BODY)


async def test_i5_the_plugins_name_is_both_drivers(stand_in: StandIn) -> None:
    await DockerClient(str(stand_in.socket), "contiv:latest").create("n1", BODY)
    method, path, body = stand_in.calls[-1]
    assert (method, path) == ("POST", "/networks/create")
    assert body["Name"] == "n1"
    assert (body["Driver"], body["IPAM"]["Driver"]) == ("contiv:latest", "contiv:latest")


@asynccontextmanager
async def leading(dockerd: Dockerd) -> AsyncIterator[tuple[Term, ExternalEffects]]:
    """Lead in mode docker, with a tenant `unit-test`."""
    async with term() as it:
        await it.committer.submit(lambda view: tenant.create(view, Tenant(tenant_name="unit-test")))
        docker = bridges(dockerd.socket)
        yield it, ExternalEffects(it.committer, FakeGateway(), docker, mode="docker")


def net1(**more: Any) -> Any:
    asked = {"tenant_name": "unit-test", "encap": "vlan", "gateway": "10.1.1.254"} | more
    return lambda view: network.create(view, a_network("net1", "10.1.1.1/24", **asked))


def srv1(view: View) -> Plan:
    return group.create(view, a_group("srv1", "net1", tenant_name="unit-test"))


def recorded(it: Term) -> dict[str, DocknetRecord]:
    """Return the records in the store, by docker's id: each is found by it."""
    return {record.uuid: record for record in it.stored().docknets.values()}


async def test_i1_a_network(dockerd: Dockerd) -> None:
    async with leading(dockerd) as (it, effects):
        await effects.change(net1())
        found = dockerd.network("net1/unit-test")
        assert found is not None
        assert (found["Scope"], found["Driver"], found["IPAM"]["Driver"]) == (
            "local",
            BRIDGE,
            DEFAULT,
        )
        assert found["IPAM"]["Config"] == [{"Subnet": "10.1.1.0/24", "Gateway": "10.1.1.254"}]
        record = recorded(it)[found["Id"]]
        assert (record.tenant, record.network, record.group) == ("unit-test", "net1", None)
        await effects.change(lambda view: network.delete(view, "unit-test:net1"))


async def test_i2_a_network_of_both_families(dockerd: Dockerd) -> None:
    async with leading(dockerd) as (it, effects):
        more = {"ipv6_subnet": "2016:0430::/100", "ipv6_gateway": "2016:0430::254"}
        await effects.change(net1(**more))
        found = dockerd.network("net1/unit-test")
        assert found is not None
        assert found["EnableIPv6"] is True
        assert found["IPAM"]["Config"] == [
            {"Subnet": "10.1.1.0/24", "Gateway": "10.1.1.254"},
            {"Subnet": "2016:0430::/100", "Gateway": "2016:0430::254"},
        ]
        assert recorded(it).keys() == {found["Id"]}
        await effects.change(lambda view: network.delete(view, "unit-test:net1"))


async def test_i3_and_i4_a_group_and_how_all_goes(dockerd: Dockerd) -> None:
    """A group has its network's subnet, so that a bridge of its own cannot be beside it."""
    async with leading(dockerd) as (it, effects):
        await it.committer.submit(net1())
        await effects.change(srv1)
        found = dockerd.network("srv1/unit-test")
        assert found is not None
        assert found["IPAM"]["Options"] == {
            "tenant": "unit-test",
            "network": "net1",
            "group": "srv1",
        }
        record = recorded(it)[found["Id"]]
        assert (record.network, record.group) == ("net1", "srv1")
        await effects.change(lambda view: group.delete(view, "unit-test:srv1"))
        assert dockerd.network("srv1/unit-test") is None
        assert recorded(it) == {}
        await effects.repair()
        assert dockerd.network("net1/unit-test") is not None
        await effects.change(lambda view: network.delete(view, "unit-test:net1"))
        assert dockerd.network("net1/unit-test") is None
        assert recorded(it) == {}
