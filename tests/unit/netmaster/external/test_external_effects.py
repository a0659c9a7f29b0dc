"""Store and ACI fabric agree, even if steps between them fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from contivmodel.objects import AppProfile, Global
from core.errors import Conflict, StoreUnavailable
from netmaster.external.aci import GatewayFailed
from netmaster.external.external_effects import ExternalEffects
from netmaster.plan.model import Plan
from netmaster.plan.objects import app_profile, group
from netmaster.plan.objects import globals as settings
from netmaster.view import View
from objdb.memory import Faults, MemoryStore
from objdb.memory.faults import LostAnswer
from tests.unit.netmaster.external_effects import died_here
from tests.unit.netmaster.fake_docker import FakeDocker
from tests.unit.netmaster.fake_gateway import FakeGateway
from tests.unit.netmaster.scene import a_group
from tests.unit.netmaster.term import Term, outcome, term

KEY = "default:a"


@dataclass
class Fabric:
    """A term of leadership with a gateway."""

    term: Term
    gateway: FakeGateway
    effects: ExternalEffects

    def agrees(self) -> bool:
        """Return whether gateway and store hold the same profiles, with nothing pending."""
        stored = self.term.stored()
        return (
            set(self.gateway.held) == set(stored.objects["appProfile"])
            and not stored.pending_effects
        )


def profile(*groups: str) -> Callable[[View], Plan]:
    """Return the decision to have the profile consist of groups."""
    asked = AppProfile(tenant_name="default", app_profile_name="a", endpoint_groups=list(groups))
    return lambda view: app_profile.create(view, asked)


def gone(view: View) -> Plan:
    return app_profile.delete(view, KEY)


@asynccontextmanager
async def fabric(
    store: MemoryStore | None = None,
    faults: Faults | None = None,
    gateway: FakeGateway | None = None,
) -> AsyncIterator[Fabric]:
    gateway = gateway or FakeGateway()
    async with term(store, faults) as leading:
        committer = leading.committer
        if store is None:
            await committer.submit(_aci)
            await leading.network("n1", encap="vlan")
            for name in ("g1", "g2"):
                await committer.submit(partial(group.create, posted=a_group(name)))
        yield Fabric(
            leading, gateway, ExternalEffects(committer, gateway, FakeDocker(), mode="kubernetes")
        )


def _aci(view: View) -> Plan:
    stored = view.read("global", "global")
    assert isinstance(stored, Global)
    return settings.update(view, stored.model_copy(update={"network_infra_type": "aci"}))


async def test_a_profile_comes_changes_and_goes_in_both() -> None:
    async with fabric() as it:
        await it.effects.change(profile("g1"))
        assert it.agrees()
        reply = await it.effects.change(profile("g2"))
        assert isinstance(reply, AppProfile)
        assert it.agrees()
        assert '"g2"' in it.gateway.held[KEY]
        assert await it.effects.change(gone) == KEY
        assert it.agrees()
        assert it.gateway.calls == [
            ("create", KEY),
            ("delete", KEY),
            ("create", KEY),
            ("delete", KEY),
        ]


async def test_changes_without_effects_do_not_call_the_gateway() -> None:
    async with fabric() as it:
        it.gateway.failing = True
        await it.effects.change(lambda view: group.create(view, a_group("g3")))
        assert it.gateway.calls == []


async def test_a_profile_that_the_gateway_refuses_does_not_come_about() -> None:
    async with fabric() as it:
        it.gateway.failing = True
        with pytest.raises(GatewayFailed, match=r"Validation failed\. Error: failed - no fabric"):
            await it.effects.change(profile("g1"))
        assert it.agrees()
        assert it.term.view.members("appProfile", "endpointGroup", "default:g1") == {}
        it.gateway.failing = False
        await it.effects.change(profile("g1"))
        assert it.agrees()


async def test_a_refused_change_stays_pending_until_the_gateway_works() -> None:
    async with fabric() as it:
        await it.effects.change(profile("g1"))
        before = it.gateway.held[KEY]
        it.gateway.failing = True
        with pytest.raises(GatewayFailed):
            await it.effects.change(profile("g2"))
        assert not it.agrees()
        await it.effects.repair()
        assert not it.agrees()
        it.gateway.failing = False
        await it.effects.repair()
        assert it.agrees()
        assert it.gateway.held[KEY] == before


async def test_the_next_leader_repairs_what_a_dead_one_left() -> None:
    gateway = FakeGateway()
    async with fabric(gateway=gateway) as it:
        gateway.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(it.effects.change(profile("g1")))
            await gateway.arrived.wait()
            left = died_here(it.term.backend.store)
            gateway.gate.set()
        assert it.agrees()
    async with fabric(left, gateway=gateway) as it:
        assert gateway.held.keys() == {KEY}
        assert not it.agrees()
        await it.effects.repair()
        assert it.agrees()
        assert gateway.held == {}


@pytest.mark.parametrize("lost", [LostAnswer.APPLIED, LostAnswer.NOT_APPLIED])
async def test_an_unknown_commit_outcome_is_repaired(lost: LostAnswer) -> None:
    faults = Faults()
    async with fabric(faults=faults) as it:
        it.gateway.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(outcome(it.effects.change(profile("g1"))))
            await it.gateway.arrived.wait()
            faults.lost_answers.append(lost)
            it.gateway.gate.set()
        assert isinstance(asked.result(), StoreUnavailable)
        assert it.agrees()
        assert (KEY in it.gateway.held) is (lost is LostAnswer.APPLIED)


async def test_a_change_refused_behind_the_gateways_back_is_undone() -> None:
    async with fabric() as it:
        turns = 0

        def fickle(view: View) -> Plan:
            nonlocal turns
            turns += 1
            if turns > 2:
                raise Conflict("not any more")
            return profile("g1")(view)

        with pytest.raises(Conflict, match="not any more"):
            await it.effects.change(fickle)
        assert it.agrees()
        assert it.gateway.calls == [("create", KEY), ("delete", KEY)]


async def test_a_concurrent_change_repeats_the_operations() -> None:
    async with fabric() as it:
        asked = iter([("g1",), ("g1",), ("g1", "g2")])
        last: tuple[str, ...] = ()

        def moving(view: View) -> Plan:
            nonlocal last
            last = next(asked, last)
            return profile(*last)(view)

        await it.effects.change(moving)
        assert it.agrees()
        assert '"g2"' in it.gateway.held[KEY]


async def test_endless_concurrent_changes_are_refused() -> None:
    async with fabric() as it:
        turns = 0

        def restless(view: View) -> Plan:
            nonlocal turns
            turns += 1
            return profile("g1" if turns % 2 else "g2")(view)

        with pytest.raises(StoreUnavailable, match="conflicting concurrent changes"):
            await it.effects.change(restless)
        assert it.agrees()
