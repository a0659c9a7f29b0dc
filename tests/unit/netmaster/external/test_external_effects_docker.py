"""Store and docker agree, even if steps between them fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from contivmodel.objects import Network
from core import keys
from core.errors import Conflict, StoreUnavailable
from netmaster.external.docker import DockerFailed
from netmaster.external.external_effects import ExternalEffects
from netmaster.plan import docker_network
from netmaster.plan.model import Plan
from netmaster.plan.objects import group, network
from netmaster.view import View
from objdb.api import Change, Put
from objdb.memory import Faults, MemoryStore
from objdb.memory.faults import LostAnswer
from state import codec
from state.records import DocknetRecord
from tests.unit.netmaster.external_effects import died_here
from tests.unit.netmaster.fake_docker import OTHERS, FakeDocker
from tests.unit.netmaster.fake_gateway import FakeGateway
from tests.unit.netmaster.scene import a_group, a_network
from tests.unit.netmaster.term import Term, outcome, term


@dataclass
class DockerTerm:
    """A term of leadership beside a docker engine."""

    term: Term
    docker: FakeDocker
    mode: str
    effects: ExternalEffects = field(init=False)

    def __post_init__(self) -> None:
        self.turn(self.mode)

    def turn(self, mode: str) -> None:
        """Go on in another mode."""
        self.effects = ExternalEffects(self.term.committer, FakeGateway(), self.docker, mode=mode)

    def agrees(self) -> bool:
        """Return whether Docker, objects and records agree, with nothing pending."""
        stored = self.term.stored()
        objects = [*stored.objects["network"].values(), *stored.objects["endpointGroup"].values()]
        names = {obj.key.removeprefix("default:") for obj in objects}
        records = stored.docknets.values()
        recorded = {record.group or record.network: record.uuid for record in records}
        return (
            recorded == self.docker.held and names == set(recorded) and not stored.pending_effects
        )


@asynccontextmanager
async def led(
    store: MemoryStore | None = None,
    faults: Faults | None = None,
    docker: FakeDocker | None = None,
    mode: str = "docker",
) -> AsyncIterator[DockerTerm]:
    async with term(store, faults) as leading:
        yield DockerTerm(leading, docker or FakeDocker(), mode)


def made(view: View) -> Plan:
    return network.create(view, a_network("n1"))


def other(view: View) -> Plan:
    return network.create(view, a_network("n2", "10.2.0.0/24"))


def elsewhere(view: View) -> Plan:
    return network.create(view, a_network("n1", "10.9.0.0/24"))


def gone(view: View) -> Plan:
    return network.delete(view, "default:n1")


def grouped(view: View) -> Plan:
    return group.create(view, a_group("g1"))


async def test_networks_and_groups_come_and_go_in_both() -> None:
    async with led() as it:
        reply = await it.effects.change(made)
        assert isinstance(reply, Network)
        assert it.agrees()
        await it.effects.change(grouped)
        assert it.agrees()
        assert sorted(it.docker.held) == ["g1", "n1"]
        await it.effects.change(lambda view: group.delete(view, "default:g1"))
        assert await it.effects.change(gone) == "default:n1"
        assert it.agrees()
        assert it.docker.calls == [
            ("create", "n1"),
            ("create", "g1"),
            ("delete", "g1"),
            ("delete", "n1"),
        ]


async def test_in_another_mode_docker_hears_of_nothing() -> None:
    async with led(mode="kubernetes") as it:
        await it.effects.change(made)
        await it.effects.repair()
        assert it.docker.calls == []


async def test_what_came_about_in_another_mode_is_made_in_docker() -> None:
    async with led(mode="kubernetes") as it:
        await it.effects.change(made)
        it.turn("docker")
        assert not it.agrees()
        await it.effects.repair()
        assert it.agrees()


async def test_without_docker_no_network_comes_about() -> None:
    async with led() as it:
        it.docker.failing = True
        with pytest.raises(DockerFailed, match="Cannot connect to the Docker daemon"):
            await it.effects.change(made)
        assert it.term.stored().networks == {}
        it.docker.failing = False
        await it.effects.change(made)
        assert it.agrees()


async def test_without_docker_no_network_goes() -> None:
    async with led() as it:
        await it.effects.change(made)
        it.docker.failing = True
        with pytest.raises(DockerFailed):
            await it.effects.change(gone)
        assert it.term.stored().networks.keys() == {"n1.default"}
        it.docker.failing = False
        await it.effects.repair()
        assert it.agrees()


async def test_a_network_of_our_driver_is_taken_and_one_that_is_gone_is_let_go() -> None:
    async with led() as it:
        it.docker.held["n1"] = "old"
        await it.effects.change(made)
        assert it.docker.held == {"n1": "old"}
        assert it.agrees()
        it.docker.held.clear()
        await it.effects.change(gone)
        assert it.agrees()


async def test_a_network_of_another_driver_is_in_the_way_and_stays() -> None:
    async with led() as it:
        it.docker.held["n1"] = OTHERS
        with pytest.raises(Conflict, match="network name used by another driver"):
            await it.effects.change(made)
        assert it.docker.held == {"n1": OTHERS}
        assert (it.term.stored().networks, it.term.stored().pending_effects) == ({}, {})


async def test_a_pending_effect_is_synced_before_a_new_change() -> None:
    async with led() as it:
        it.docker.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(it.effects.change(made))
            await it.docker.arrived.wait()
            left = died_here(it.term.backend.store)
            it.docker.gate.set()
    docker = FakeDocker(held=dict(it.docker.held))
    async with led(left, docker=docker) as heir:
        await heir.effects.change(elsewhere)
        assert heir.agrees()
        assert docker.calls == [("delete", "n1"), ("create", "n1")]
        assert docker.bodies["n1"]["IPAM"]["Config"] == [{"Subnet": "10.9.0.0/24"}]


async def test_one_failed_repair_does_not_stop_the_others() -> None:
    async with led(mode="kubernetes") as it:
        await it.effects.change(made)
        await it.effects.change(other)
        it.docker.held["n1"] = OTHERS
        it.turn("docker")
        await it.effects.repair()
        assert sorted(it.docker.held) == ["n1", "n2"]
        assert it.term.stored().docknets.keys() == {"default.n2."}


@pytest.mark.parametrize("lost", [LostAnswer.APPLIED, LostAnswer.NOT_APPLIED])
@pytest.mark.parametrize("change", [made, gone])
async def test_an_unknown_commit_outcome_is_repaired(
    lost: LostAnswer, change: Callable[[View], Plan]
) -> None:
    faults = Faults()
    async with led(faults=faults) as it:
        if change is gone:
            await it.effects.change(made)
        faults.lost_answers.extend([LostAnswer.DELIVERED, lost])
        found = await outcome(it.effects.change(change))
        assert isinstance(found, StoreUnavailable)
        assert it.agrees()
        assert ("n1" in it.docker.held) is ((change is made) is (lost is LostAnswer.APPLIED))


async def test_in_a_swarm_a_mapping_that_comes_meanwhile_keeps_the_network() -> None:
    async with led(mode="swarm-mode") as it:
        await it.effects.change(made)
        place = docker_network.identity_of(a_network("n1"))
        mapped = DocknetRecord(tenant=place.tenant, network=place.network, group=None, uuid="f00")

        def overtaken(view: View) -> Plan:
            plan = network.delete(view, "default:n1", in_swarm=True)
            put = Put(keys.docknet(place.id), codec.encode(mapped))
            it.term.backend.store.apply([Change((), (put,))])
            return plan

        with pytest.raises(StoreUnavailable, match="changed by another writer"):
            await it.effects.change(overtaken)
        assert it.term.stored().networks.keys() == {"n1.default"}
        with pytest.raises(Conflict, match="mapped to docker network f00"):
            await it.effects.change(lambda view: network.delete(view, "default:n1", in_swarm=True))
