"""What follows the engine: docker's networks, containers, and endpoints that it forgot."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from core.errors import MasterUnavailable, NotFound
from core.ids import GroupName, NetworkName, TenantName
from netplugin.libnetwork.containers import Containers
from netplugin.libnetwork.docknets import GRACE, UNKNOWN_GRACE, Docknets
from netplugin.libnetwork.endpoint_check import EndpointCheck
from netplugin.libnetwork.engine import EngineFailed
from netplugin.libnetwork.network_file import KnownNetwork, NetworkFiles
from netplugin.libnetwork.sync import EngineSync, Followers
from netplugin.world.dns.bare_names import ALIASES
from netplugin.world.dns.dns_records import Asker
from state.docker_networks import DockerPlace, body_of
from state.records import DocknetRecord
from tests.unit.netplugin.agent import Outside, eventually, left_nothing, request
from tests.unit.netplugin.libnetwork.scene import Drivers, container, drivers, engine_network
from tests.unit.netplugin.records import endpoint, group, network
from tests.unit.netplugin.worlds import name_book

pytestmark = pytest.mark.usefixtures("hurried")
LEAK_GRACE = 100.0
OPTIONS = {"com.docker.network.generic": {"network": "n1"}}
PLACE = DockerPlace(network().tenant, network().name)


@dataclass(kw_only=True)
class Following:
    """An agent with its followers, whose clock is the test's."""

    it: Drivers
    docknets: Docknets
    sync: EngineSync
    now: list[float]

    def faults(self, subject: str) -> list[str]:
        return self.it.agent.progress.faults(subject)

    async def look(self, after: float = 0.0) -> bool:
        """Look at the engine after so many seconds."""
        self.now[0] += after
        return await self.sync.look()


@pytest.fixture
async def following(outside: Outside, tmp_path: Path) -> AsyncIterator[Following]:
    async with drivers(outside, tmp_path) as it:
        now, progress = [1000.0], it.agent.progress

        def clock() -> float:
            return now[0]

        registry, world = it.agent.registry, it.agent.world
        endpoint_check = EndpointCheck(
            registry,
            it.agent.pods,
            progress,
            grace=LEAK_GRACE,
            clock=clock,
        )
        docknets = Docknets(it.engine, world, progress, clock=clock)
        followers = Followers(
            containers=Containers(registry, world, outside.master),
            endpoint_check=endpoint_check,
            docknets=docknets,
        )
        sync = EngineSync(it.engine, it.names, it.driver, followers, it.agent.records, clock=clock)
        yield Following(it=it, docknets=docknets, sync=sync, now=now)


async def one_endpoint(following: Following, endpoint: str = "e1") -> None:
    """Make an endpoint, which the engine knows, on a network of the engine's."""
    it = following.it
    await it.call("NetworkDriver.CreateNetwork", NetworkID="d1", Options=OPTIONS)
    await it.call("NetworkDriver.CreateEndpoint", NetworkID="d1", EndpointID=endpoint)
    for record in it.agent.outside.master.endpoints.values():
        it.agent.world.put(record)
    it.engine.put(engine_network("d1", endpoints=frozenset({endpoint})))


# -- docker's networks -----------------------------------------------------------------------------


async def test_each_network_and_group_has_one(following: Following) -> None:
    engine = following.it.engine
    following.it.agent.world.put(group("g1"))
    assert await following.look()
    assert sorted(name for name, _ in engine.made) == ["g1", "n1"]
    assert not await following.look()
    bodies = dict(engine.made)
    place = replace(PLACE, group=GroupName("g1"))
    assert bodies["g1"] == body_of(place, network(v6=True))


async def test_one_that_is_there_is_adopted(following: Following) -> None:
    body = body_of(PLACE, network(v6=True))
    following.it.engine.put(
        engine_network(
            "d7",
            "n1",
            options=body["Options"],
            ipam_options=body["IPAM"]["Options"],
            subnets=tuple(body["IPAM"]["Config"]),
            ipv6=True,
        )
    )
    assert not await following.look(GRACE)
    assert following.it.engine.made == []
    assert await following.it.names.place_of("d7") == PLACE


async def test_one_that_somebody_removed_returns_after_a_while(following: Following) -> None:
    """At once would undo what netmaster does: it removes the network before its record."""
    engine = following.it.engine
    await following.look()
    engine.networks.clear()
    await following.look()
    assert len(engine.made) == 1
    await following.look(GRACE)
    assert len(engine.made) == 2


async def test_one_whose_record_is_gone_goes(following: Following) -> None:
    engine = following.it.engine
    await following.look()
    following.it.agent.world.remove(network())
    await following.look()
    assert engine.deleted == []
    await following.look(GRACE)
    assert engine.deleted == ["id-n1-1"]


async def test_one_that_has_no_record_yet_stays(following: Following) -> None:
    """Of another netmaster, or of one that has not committed yet."""
    engine = following.it.engine
    engine.put(engine_network("d9", "new", options={"pkt-tag": "7"}))
    await following.look()
    await following.look(UNKNOWN_GRACE - 1)
    assert engine.deleted == []
    await following.look(1)
    assert engine.deleted == ["d9"]


async def test_a_users_network_stays(following: Following) -> None:
    following.it.engine.put(engine_network("d9", "mine"))
    await following.look()
    await following.look(UNKNOWN_GRACE)
    assert following.it.engine.deleted == []


async def test_one_that_became_another_is_made_again(following: Following) -> None:
    engine = following.it.engine
    await following.look()
    following.it.agent.world.put(network(gateway="10.1.0.1", v6=True))
    await following.look()
    await following.look(GRACE)
    assert engine.deleted == ["id-n1-1"]
    await following.look()
    await following.look(GRACE)
    assert [body["IPAM"]["Config"][0]["Gateway"] for _, body in engine.made] == [
        "10.1.255.254",
        "10.1.0.1",
    ]


async def test_what_cannot_be_done_is_a_fault(following: Following) -> None:
    engine = following.it.engine
    engine.other_names.add("n1")
    assert await following.look()
    assert following.faults("docker networks") == [
        "docker network n1: another driver has a network of that name, remove it"
    ]
    engine.other_names.clear()
    await following.look()
    assert following.faults("docker networks") == []


# -- containers ------------------------------------------------------------------------------------


async def test_a_container_that_starts_and_ends_is_told_once(following: Following) -> None:
    await one_endpoint(following)
    master, engine = following.it.agent.outside.master, following.it.engine
    engine.containers = [container("c1", "e1", app="web")]
    await following.look()
    await following.look()
    (started,) = master.updates
    assert (started.event, started.container_id, started.common_name) == ("start", "c1", "/c1")
    assert (started.endpoint_id, started.network, started.labels) == ("e1", "n1", {"app": "web"})
    (record,) = master.endpoints.values()
    told = replace(record, container_id="c1", common_name="/c1", labels={"app": "web"})
    following.it.agent.world.put(told)
    await following.look()
    assert len(master.updates) == 1
    engine.containers = []
    await following.look()
    assert [(one.event, one.container_id) for one in master.updates[1:]] == [("die", "c1")]


async def test_netmaster_is_told_when_it_is_back(following: Following) -> None:
    await one_endpoint(following)
    outside = following.it.agent.outside
    following.it.engine.containers = [container("c1", "e1")]
    outside.faults.failing["update"] = MasterUnavailable("no leader")
    with pytest.raises(MasterUnavailable):
        await following.look()
    outside.faults.failing.clear()
    await following.look()
    assert len(outside.master.updates) == 1


# -- endpoints -------------------------------------------------------------------------------------


async def test_what_the_engine_forgot_is_released_after_a_while(following: Following) -> None:
    await one_endpoint(following)
    await following.look(LEAK_GRACE)
    await following.look(LEAK_GRACE)
    assert len(following.it.agent.registry.keys()) == 1, "the engine knows it"
    following.it.engine.put(engine_network("d1"))
    assert await following.look()
    await following.look(LEAK_GRACE - 1)
    assert len(following.it.agent.registry.keys()) == 1
    await following.look(1)
    await left_nothing(following.it.agent)


async def test_an_engine_that_is_away_forgets_nothing(following: Following) -> None:
    await one_endpoint(following)
    following.it.engine.put(engine_network("d1"))
    await following.look()
    following.it.engine.away = True
    with pytest.raises(EngineFailed):
        await following.look(LEAK_GRACE)
    following.it.engine.away = False
    await following.look()
    assert len(following.it.agent.registry.keys()) == 1, "time in which it was away does not count"


async def test_pods_of_cni_are_not_the_engines(following: Following) -> None:
    await following.it.agent.pods.add(request())
    await following.look()
    await following.look(LEAK_GRACE)
    assert len(following.it.agent.registry.keys()) == 1


async def test_a_container_without_an_endpoint_here_is_a_fault(following: Following) -> None:
    following.it.engine.put(engine_network("d1", endpoints=frozenset({"e" * 64})))
    await following.look()
    await following.look(LEAK_GRACE)
    (fault,) = following.faults("docker endpoints")
    assert "endpoint eeeeeeeeeeee is not on this host" in fault


# -- what is learned of networks -------------------------------------------------------------------


async def test_auxiliary_addresses_are_kept_reserved(following: Following) -> None:
    data = [{"Pool": "10.1.0.0/16", "AuxAddresses": {"printer": "10.1.0.5/16"}}]
    call = "NetworkDriver.CreateNetwork"
    await following.it.call(call, NetworkID="d1", Options=OPTIONS, IPv4Data=data)
    following.it.engine.put(engine_network("d1"))
    await following.look()
    await following.look(60)
    await following.look(60)
    asked = following.it.agent.outside.master.asked
    assert [(one.network_id, one.preferred) for one in asked] == [("n1.default", "10.1.0.5")] * 2


async def test_what_is_gone_is_forgotten(following: Following, tmp_path: Path) -> None:
    await following.it.call("NetworkDriver.CreateNetwork", NetworkID="d1", Options=OPTIONS)
    await following.look()
    assert [one.docker_id for one in following.it.names.known() if one.docker_id == "d1"]
    await following.look(60)
    files = NetworkFiles(tmp_path)
    await files.load()
    assert "d1" not in {one.docker_id for one in files.all()}


async def test_a_network_is_known_by_record_options_or_name(following: Following) -> None:
    world, engine, names = following.it.agent.world, following.it.engine, following.it.names
    world.put(replace(group("g1"), group_tag="gold"))
    grouped = replace(PLACE, group=GroupName("g1"))
    world.put(
        DocknetRecord(tenant=PLACE.tenant, network=PLACE.network, group=grouped.group, uuid="d1")
    )
    engine.put(engine_network("d2", ipam_options={"network": "n1", "tenant": "default"}))
    engine.put(engine_network("d3", options={"contiv-tag": "gold"}))
    engine.put(engine_network("d4", "g1"))
    engine.put(engine_network("d5", "g1.n1/default"))
    engine.put(engine_network("d6", "n1"))
    found = [await names.place_of(f"d{number}") for number in range(1, 7)]
    assert found == [grouped, PLACE, grouped, grouped, grouped, PLACE]
    engine.away = True
    assert await names.place_of("d5") == grouped, "it is kept"


async def test_a_record_that_comes_late_is_waited_for(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path, record_wait=5.0) as it:
        waiting = it.agent.sup.spawn("place", _places(it))
        await eventually(lambda: not waiting.done())
        record = DocknetRecord(tenant=PLACE.tenant, network=PLACE.network, group=None, uuid="d1")
        it.agent.learn("/docknet", record)
        await waiting
        assert it.files.get("d1") == KnownNetwork(docker_id="d1", place=PLACE)


async def _places(it: Drivers) -> None:
    await it.names.place_of("d1")


async def test_unreadable_files_are_passed_over(tmp_path: Path) -> None:
    files = NetworkFiles(tmp_path / "networks")
    await files.load()
    place = DockerPlace(PLACE.tenant, NetworkName("n.1"), GroupName("g"))
    kept = KnownNetwork(docker_id="d1", place=place, auxiliary=("10.1.0.5",))
    await files.put(kept)
    (tmp_path / "networks" / "d2.json").write_text("{")
    (tmp_path / "networks" / "d3.json").write_text('{"id": "d3"}')
    again = NetworkFiles(tmp_path / "networks")
    await again.load()
    assert again.all() == [kept]
    await again.remove("d1")
    await again.remove("d1")
    assert not (tmp_path / "networks" / "d1.json").exists()


# -- names and subnets -----------------------------------------------------------------------------


async def test_aliases_are_told_of_and_taken_back(following: Following) -> None:
    it = following.it
    await one_endpoint(following)
    (record,) = it.agent.outside.master.endpoints.values()

    def told() -> dict[str, str]:
        return dict(it.agent.outside.master.updates[-1].labels)

    odd = ("db", "a.b", "with space", "x" * 64)
    mine = {ALIASES: "localhost"}
    it.engine.containers = [container("c1", "e1", aliases={"e1": odd, "e2": ("other",)}, **mine)]
    await following.look()
    assert told() == {ALIASES: "db"}
    it.agent.world.put(replace(record, container_id="c1", common_name="/c1", labels=told()))
    updates = len(it.agent.outside.master.updates)
    await following.look()
    assert len(it.agent.outside.master.updates) == updates, "nothing is told again"
    it.engine.containers = [container("c1", "e1")]
    await following.look()
    assert told() == {ALIASES: ""}


def test_an_alias_is_a_name_as_the_containers_own() -> None:
    book = name_book()
    book.endpoints.put(replace(endpoint(1), common_name="/c1", labels={ALIASES: "db c1 a.b wpad"}))
    asker = Asker(TenantName("default"))
    for name in ("c1", "DB"):
        assert book.lookup(asker, name, IPv4Address) == ["10.1.0.1"]
    for name in ("a.b", "wpad", "db c1"):
        assert book.lookup(asker, name, IPv4Address) is None
    book.endpoints.put(replace(endpoint(1), common_name="/c1", labels={ALIASES: ""}))
    assert book.lookup(asker, "db", IPv4Address) is None
    book.endpoints.remove(endpoint(1).key)
    assert book.lookup(asker, "c1", IPv4Address) is None


async def test_a_network_is_whose_subnet_it_has(following: Following) -> None:
    it = following.it
    mine = engine_network("d9", "shop_bare", subnets=({"Subnet": "10.1.0.0/16"},))
    it.engine.put(mine)
    assert await it.names.place_of("d9") == PLACE
    both = replace(mine, docker_id="d8", subnets=(*mine.subnets, {"Subnet": "2001:db8::/64"}))
    it.engine.put(both)
    assert await it.names.place_of("d8") == PLACE
    others = [
        replace(mine, subnets=({"Subnet": "10.1.0.0/24"},)),
        replace(mine, subnets=(*mine.subnets, {"Subnet": "10.2.0.0/24"})),
        replace(mine, scope="swarm"),
        replace(mine, options={"pkt-tag": "1"}),
        replace(mine, subnets=()),
    ]
    for number, one in enumerate(others):
        it.engine.put(replace(one, docker_id=f"x{number}"))
        with pytest.raises(NotFound, match="give it the subnet of one"):
            await it.names.place_of(f"x{number}")
    it.agent.world.put(network("n1", "blue"))
    it.engine.put(replace(mine, docker_id="d7"))
    with pytest.raises(NotFound, match="none of our networks"):
        await it.names.place_of("d7")
