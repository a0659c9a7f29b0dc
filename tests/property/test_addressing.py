"""Addresses under every order of requests, failures and restarts.

Decisions, view and committer run on the memory store. Before and after each commit the answer may
be lost or the leader may die. After every step, reading nothing but the store: no address is held
twice, everything acknowledged is there, everything released is free, and the counts agree.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from contivmodel.objects import EndpointGroup, Network
from contivmodel.rpc import (
    AllocAddressRequest,
    ConfigEP,
    CreateEndpointRequest,
    DeleteEndpointRequest,
    ReleaseAddressRequest,
)
from core import keys
from core.errors import Conflict, ContivError, Exhausted, NotFound, StoreUnavailable
from core.tasks import Supervisor
from netmaster.commits.commit import Committer, WriteAuthority
from netmaster.commits.standby import Standby
from netmaster.ipam.pool import Pool
from netmaster.plan import grants
from netmaster.plan.endpoints import address, endpoint
from netmaster.plan.objects import globals as settings_of
from netmaster.plan.objects import group, network, tenant
from netmaster.plan.show import inspect
from netmaster.stored import Write
from netmaster.view import View
from objdb.api import Change, Fence, Outcome
from objdb.memory import LostAnswer, MemoryBackend, MemoryStore
from state.records import EndpointRecord, GrantRecord
from tests.bed.waiting import WITHIN
from tests.property.holdings import Holdings, ModelNetwork, differences, violations

NOW: Final = 1000.0

SITES: Final = {
    "n1": ModelNetwork(
        name="n1",
        subnet=IPv4Network("10.1.1.0/28"),
        gateways=("10.1.1.14",),
        first=IPv4Address("10.1.1.1"),
        last=IPv4Address("10.1.1.14"),
        pools={
            "gp": (IPv4Address("10.1.1.5"), IPv4Address("10.1.1.7")),
            "gq": (IPv4Address("10.1.1.8"), IPv4Address("10.1.1.8")),
        },
    ),
    "six": ModelNetwork(
        name="six",
        subnet=IPv4Network("10.2.0.0/29"),
        gateways=("10.2.0.1", "2001:db8::1"),
        first=IPv4Address("10.2.0.1"),
        last=IPv4Address("10.2.0.6"),
        subnet6=IPv6Network("2001:db8::/125"),
    ),
    "rng": ModelNetwork(
        name="rng",
        subnet=IPv4Network("10.3.0.0/24"),
        gateways=("10.3.0.254",),
        first=IPv4Address("10.3.0.10"),
        last=IPv4Address("10.3.0.13"),
    ),
}
NETWORKS: Final = (
    Network(network_name="n1", subnet="10.1.1.0/28", gateway="10.1.1.14"),
    Network(
        network_name="six",
        subnet="10.2.0.0/29",
        gateway="10.2.0.1",
        ipv6_subnet="2001:db8::/125",
        ipv6_gateway="2001:db8::1",
    ),
    Network(network_name="rng", subnet="10.3.0.10-10.3.0.13/24", gateway="10.3.0.254"),
)
GROUPS: Final = {
    name: EndpointGroup(tenant_name="default", group_name=name, network_name="n1", ip_pool=pool)
    for name, pool in (("g1", ""), ("gp", "10.1.1.5-10.1.1.7"), ("gq", "10.1.1.8"))
}
lost_answers = st.sampled_from([LostAnswer.APPLIED, LostAnswer.NOT_APPLIED])
places = st.sampled_from(
    [("six", ""), ("n1", ""), ("n1", "g1"), ("n1", "gp"), ("n1", "gq"), ("six", ""), ("rng", "")]
)
containers = st.sampled_from(["a", "b", "c", "d", "e", "f"])
host_numbers = st.integers(0, 15)


class KilledBackend(MemoryBackend):
    """A client whose process can be killed right before or right after a commit is applied."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.kill: LostAnswer | None = None
        self.killed = asyncio.Event()

    async def commit(
        self, changes: Sequence[Change], *, fence: Fence | None = None, writer: str | None = None
    ) -> list[Outcome]:
        if self.kill is None:
            return await super().commit(changes, fence=fence, writer=writer)
        if self.kill is LostAnswer.APPLIED:
            await super().commit(changes, fence=fence, writer=writer)
        self.killed.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a dead process goes on")


class Leader:
    """One process that leads: from its lock to its end."""

    def __init__(self, store: MemoryStore) -> None:
        self.backend = KilledBackend(store)
        self._tasks = Supervisor()

    async def start(self) -> None:
        lock = self.backend.lock(keys.LEADER_LOCK, "here", 1000.0)
        fence = await lock.acquire()
        authority = WriteAuthority(fence=fence, writer="w", valid_until=lambda: float("inf"))
        standby = Standby(self.backend)
        self._tasks.supervise("standby watch", standby.watch())
        self.committer = await Committer.begin(self.backend, authority, standby)
        self._lock = lock
        self._tasks.supervise("committer", self.committer.run())

    async def stop(self) -> None:
        await self._tasks.close()
        await self._lock.release()
        await self.backend.close()


def stored(store: MemoryStore) -> dict[str, bytes]:
    """Return what a store holds."""
    return {key: e.value for key, e in store.snapshot(keys.ROOT).entries.items()}


class Addressing(RuleBasedStateMachine):
    """Requests in any order, on a leader that may fail or die."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = MemoryStore()
        self.model = Holdings(SITES)
        self.leader = Leader(self.store)
        self.runner.run(self._begin())

    async def _begin(self) -> None:
        await self.leader.start()
        flags = settings_of.StartupFlags("routing", "default")
        await self._submit(tenant.startup)
        await self._submit(settings_of.startup, flags)
        for asked in NETWORKS:
            made = {"tenant_name": "default", "encap": "vxlan", "nw_type": "data"}
            await self._submit(network.create, asked.model_copy(update=made))
        for wanted in GROUPS.values():
            await self._submit(group.create, wanted)
            self.model.groups["n1"].add(wanted.group_name)

    def teardown(self) -> None:
        self.runner.run(self.leader.stop())
        self.runner.close()

    async def _submit(self, decide: Any, *asked: Any) -> Any:
        return await self.leader.committer.submit(lambda view: decide(view, *asked))

    def ask(self, decide: Any, *asked: Any) -> Any:
        """Return the answer, or the refusal."""

        async def answer() -> Any:
            try:
                return await self._submit(decide, *asked)
            except ContivError as exc:
                return exc

        return self.runner.run(answer())

    # -- requests, each with what the model expects -------------------------------------------

    @rule(place=places, container=containers)
    def create(self, place: tuple[str, str], container: str) -> None:
        self._create(place, container, "")

    @rule(place=places, container=containers, host=host_numbers)
    def create_with_address(self, place: tuple[str, str], container: str, host: int) -> None:
        self._create(place, container, str(SITES[place[0]].subnet[min(host, 7)]))

    @rule(place=places, container=containers)
    def create_with_the_last_reservation(self, place: tuple[str, str], container: str) -> None:
        reserved = [
            ip
            for ip, holder in self.model.held[place[0]].items()
            if holder[0] == "reservation" and ":" not in ip
        ]
        if reserved:
            self._create(place, container, reserved[-1])

    @rule(name=st.sampled_from(list(SITES)), container=containers)
    def delete(self, name: str, container: str) -> None:
        answer = self.ask(endpoint.delete, _unwanted(name, container))
        if (name, container) not in self.model.endpoints:
            assert isinstance(answer, NotFound)
            return
        assert isinstance(answer, EndpointRecord)
        self._drop(name, container)

    @rule(place=places)
    def reserve(self, place: tuple[str, str]) -> None:
        expected = self.model.lowest(*place)
        answer = self.ask(address.allocate, _reserved(place), NOW)
        if self._group_is_missing(place):
            assert isinstance(answer, NotFound)
            return
        if expected is None:
            assert isinstance(answer, Exhausted)
            return
        assert answer == f"{expected}/{SITES[place[0]].subnet.prefixlen}"
        self.model.hold(place[0], expected, ("reservation", ""))

    @rule(place=places, host=host_numbers)
    def reserve_address(self, place: tuple[str, str], host: int) -> None:
        name = place[0]
        ip = str(SITES[name].subnet[min(host, 7)])
        answer = self.ask(address.allocate, _reserved(place, ip), NOW)
        if self._group_is_missing(place):
            assert isinstance(answer, NotFound)
        elif ip in SITES[name].gateways:
            assert answer == f"{ip}/{SITES[name].subnet.prefixlen}"
        elif not self._may_be_reserved(name, ip) or ip not in self.model.pool(*place):
            assert isinstance(answer, Conflict)
        else:
            assert str(answer).startswith(ip)
            self.model.hold(name, ip, ("reservation", ""))

    @rule()
    def reserve_ipv6(self) -> None:
        expected = self.model.following6("six")
        asked = AllocAddressRequest(network_id="six.default", address_pool="2001:db8::/125")
        answer = self.ask(address.allocate, asked, NOW)
        if expected is None:
            assert isinstance(answer, Exhausted)
            return
        assert answer == f"{expected}/125"
        self.model.hold("six", expected, ("reservation", ""))

    @rule(host=st.integers(0, 7))
    def reserve_ipv6_address(self, host: int) -> None:
        ip = f"2001:db8::{host or ''}"
        asked = AllocAddressRequest(
            network_id="six.default", address_pool="2001:db8::/125", preferred=ip
        )
        answer = self.ask(address.allocate, asked, NOW)
        if ip in SITES["six"].gateways:
            assert answer == f"{ip}/125"
        elif not host or not self._may_be_reserved("six", ip):
            assert isinstance(answer, Conflict)
        else:
            assert answer == f"{ip}/125"
            self.model.hold("six", ip, ("reservation", ""))

    def _may_be_reserved(self, name: str, ip: str) -> bool:
        """Tell whether an address is free, or reserved already: then it is answered again."""
        return self.model.held[name].get(ip, ("reservation", ""))[0] == "reservation"

    @rule(name=st.sampled_from(list(SITES)), host=host_numbers, v6=st.booleans())
    def release(self, name: str, host: int, v6: bool) -> None:
        subnet6 = SITES[name].subnet6
        ip = str(subnet6[host % 8] if v6 and subnet6 else SITES[name].subnet[min(host, 7)])
        request = ReleaseAddressRequest(network_id=f"{name}.default", ipv4_address=ip)
        assert self.ask(address.release, request) == "success"
        if self.model.held[name].get(ip, ("", ""))[0] == "reservation":
            self.model.free(name, ip)

    @rule(late=st.booleans())
    def reclaim(self, late: bool) -> None:
        answer = self.ask(lambda view: address.reclaim(view, view.reservations if late else ()))
        overdue = [
            (name, ip)
            for name, holders in self.model.held.items()
            for ip, holder in holders.items()
            if holder[0] == "reservation" and late
        ]
        assert answer == len(overdue)
        for name, ip in overdue:
            self.model.free(name, ip)

    @rule(place=places, wanted=st.lists(containers, min_size=2, unique=True))
    def create_many_at_once(self, place: tuple[str, str], wanted: list[str]) -> None:
        async def all_at_once() -> list[Any]:
            asked = [_wanted(place, container, "") for container in wanted]
            return await asyncio.gather(
                *(self._submit(endpoint.create, request, NOW) for request in asked),
                return_exceptions=True,
            )

        answers = self.runner.run(all_at_once())
        for container, answer in zip(wanted, answers, strict=True):
            self._expect(place, container, "", answer)

    @rule(name=st.sampled_from(list(GROUPS)))
    def delete_group(self, name: str) -> None:
        answer = self.ask(group.delete, f"default:{name}")
        if name not in self.model.groups["n1"]:
            assert isinstance(answer, NotFound)
        elif any(of_group == name for _, _, of_group in self.model.endpoints.values()):
            assert isinstance(answer, Conflict)
        else:
            assert answer == f"default:{name}"
            self.model.groups["n1"].remove(name)

    @rule(name=st.sampled_from(list(GROUPS)))
    def create_group(self, name: str) -> None:
        answer = self.ask(group.create, GROUPS[name])
        if not self._could_be_created(name):
            assert isinstance(answer, Conflict)
            return
        assert isinstance(answer, EndpointGroup)
        self.model.groups["n1"].add(name)

    @rule(name=st.sampled_from(list(GROUPS)), when=lost_answers)
    def die_creating_a_group(self, name: str, when: LostAnswer) -> None:
        self._die(when, group.create, GROUPS[name])

    @rule(name=st.sampled_from(list(GROUPS)), lost=lost_answers)
    def delete_a_group_and_lose_the_answer(self, name: str, lost: LostAnswer) -> None:
        self._lose(lost, group.delete, f"default:{name}")

    # -- failures -----------------------------------------------------------------------------

    @rule(place=places, container=containers, lost=lost_answers)
    def create_and_lose_the_answer(
        self, place: tuple[str, str], container: str, lost: LostAnswer
    ) -> None:
        self._lose(lost, endpoint.create, _wanted(place, container, ""), NOW)

    @rule(name=st.sampled_from(list(SITES)), container=containers, lost=lost_answers)
    def delete_and_lose_the_answer(self, name: str, container: str, lost: LostAnswer) -> None:
        self._lose(lost, endpoint.delete, _unwanted(name, container))

    @rule(place=places, lost=lost_answers)
    def reserve_and_lose_the_answer(self, place: tuple[str, str], lost: LostAnswer) -> None:
        self._lose(lost, address.allocate, _reserved(place), NOW)

    @rule(place=places, container=containers, when=lost_answers)
    def die_creating(self, place: tuple[str, str], container: str, when: LostAnswer) -> None:
        self._die(when, endpoint.create, _wanted(place, container, ""), NOW)

    @rule(name=st.sampled_from(list(SITES)), container=containers, when=lost_answers)
    def die_deleting(self, name: str, container: str, when: LostAnswer) -> None:
        self._die(when, endpoint.delete, _unwanted(name, container))

    @precondition(lambda self: any(name == "six" for name, _ in self.model.endpoints))
    @rule()
    def hand_over_after_a_delete(self) -> None:
        name, container = next(place for place in self.model.endpoints if place[0] == "six")
        self.delete(name, container)
        self.hand_over()
        self.reserve_ipv6()

    @rule()
    def hand_over(self) -> None:
        self.runner.run(self._next_leader())

    @rule()
    def lose_continuity(self) -> None:
        self.store.lose_continuity()

    # -- after every step ---------------------------------------------------------------------

    @invariant()
    def the_store_is_sound_and_as_acknowledged(self) -> None:
        values = stored(self.store)
        assert violations(values) == []
        assert differences(values, self.model) == []

    @invariant()
    def counts_agree(self) -> None:
        for name in SITES:
            oper = self.ask_view(name)
            assert oper["allocatedAddressesCount"] == self.model.count(name)
            endpoints = [container for where, container in self.model.endpoints if where == name]
            assert oper["numEndpoints"] == len(endpoints)

    @precondition(lambda self: self.model.endpoints)
    @rule()
    def asking_again_answers_the_same(self) -> None:
        (name, container), (ip, ip6, of_group) = next(iter(self.model.endpoints.items()))
        answer = self.ask(endpoint.create, _wanted((name, of_group), container, ""), NOW)
        assert (answer.ip_address, answer.ipv6_address) == (ip, ip6)

    def ask_view(self, name: str) -> dict[str, Any]:
        reading = self.leader.committer.read(lambda view: inspect.network(view, f"default:{name}"))
        return self.runner.run(reading)

    # -- how ------------------------------------------------------------------------------------

    def _create(self, place: tuple[str, str], container: str, ip: str) -> None:
        answer = self.ask(endpoint.create, _wanted(place, container, ip), NOW)
        self._expect(place, container, ip, answer)

    def _expect(self, place: tuple[str, str], container: str, ip: str, answer: Any) -> None:
        name, of_group = place
        known = self.model.endpoints.get((name, container))
        if known is not None:
            assert (answer.ip_address, answer.ipv6_address) == known[:2]
            return
        if self._group_is_missing(place):
            assert isinstance(answer, NotFound)
            return
        if ip and not self._may_have(place, ip):
            assert isinstance(answer, Conflict)
            return
        expected = ip or self.model.lowest(name, of_group)
        expected6 = self.model.following6(name) if SITES[name].subnet6 else ""
        if expected is None or expected6 is None:
            assert isinstance(answer, Exhausted)
            return
        assert (answer.ip_address, answer.ipv6_address) == (expected, expected6)
        self._learn(name, container, answer)

    def _group_is_missing(self, place: tuple[str, str]) -> bool:
        return place[1] not in {"", *self.model.groups[place[0]]}

    def _could_be_created(self, name: str) -> bool:
        if name in self.model.groups["n1"] or name not in SITES["n1"].pools:
            return True
        first, last = SITES["n1"].pools[name]
        return not any(
            first <= IPv4Address(ip) <= last for ip in self.model.held["n1"] if ":" not in ip
        )

    def _may_have(self, place: tuple[str, str], ip: str) -> bool:
        holder = self.model.held[place[0]].get(ip)
        return ip in self.model.pool(*place) and (holder is None or holder[0] == "reservation")

    def _learn(self, name: str, container: str, record: EndpointRecord) -> None:
        of_group = record.service_name
        self.model.endpoints[name, container] = (record.ip_address, record.ipv6_address, of_group)
        for ip in (record.ip_address, record.ipv6_address):
            if ip:
                self.model.hold(name, ip, ("endpoint", record.key))

    def _drop(self, name: str, container: str) -> None:
        ip, ip6, _ = self.model.endpoints.pop((name, container))
        for held in (ip, ip6):
            if held:
                self.model.free(name, held)

    def _lose(self, lost: LostAnswer, decide: Any, *asked: Any) -> None:
        self.leader.backend.faults.lost_answers.append(lost)
        answer = self.ask(decide, *asked)
        self.leader.backend.faults.lost_answers.clear()
        if isinstance(answer, StoreUnavailable):
            self._sync_groups(lost, decide, *asked)
            self.model.new_leader()

    def _die(self, when: LostAnswer, decide: Any, *asked: Any) -> None:
        async def die() -> bool:
            backend = self.leader.backend
            backend.kill = when
            try:
                async with asyncio.timeout(WITHIN):
                    async with AsyncExitStack() as stack:
                        tasks = Supervisor()
                        stack.push_async_callback(tasks.close)
                        asking = tasks.spawn("asking", self._unanswered(decide, *asked))
                        dying = tasks.spawn("dying", _wait(backend.killed))
                        await asyncio.wait((asking, dying), return_when=asyncio.FIRST_COMPLETED)
                        return backend.killed.is_set()
            finally:
                await self._next_leader()

        if self.runner.run(die()):
            self._sync_groups(when, decide, *asked)
        self.model.new_leader()

    async def _unanswered(self, decide: Any, *asked: Any) -> None:
        try:
            await self._submit(decide, *asked)
        except ContivError:
            return

    async def _next_leader(self) -> None:
        await self.leader.stop()
        self.leader = Leader(self.store)
        await self.leader.start()
        self.model.new_leader()

    def _sync_groups(self, what: LostAnswer, decide: Any, *asked: Any) -> None:
        """Let the model do what was, or was not, done without an answer."""
        if what is LostAnswer.NOT_APPLIED:
            return
        if decide is endpoint.create:
            request: CreateEndpointRequest = asked[0]
            key = f"{request.network_name}.default-{request.config.container}"
            view = View.load(stored(self.store))
            self._learn(request.network_name, request.config.container, view.endpoints[key])  # type: ignore[index]
        elif decide is endpoint.delete:
            self._drop(asked[0].network_name, asked[0].endpoint_id)
        elif decide is group.create:
            self.model.groups["n1"].add(asked[0].group_name)
        elif decide is group.delete:
            self.model.groups["n1"].remove(asked[0].partition(":")[2])
        else:
            nid, of_group = address.split_alloc_id(asked[0].network_id)
            name = nid.partition(".")[0]
            expected = self.model.lowest(name, of_group.partition(":")[0] if of_group else "")
            assert expected is not None
            self.model.hold(name, expected, ("reservation", ""))


def _wanted(place: tuple[str, str], container: str, ip: str) -> CreateEndpointRequest:
    config = ConfigEP(container=container, host="h1", ip_address=ip, service_name=place[1])
    return CreateEndpointRequest(tenant_name="default", network_name=place[0], config=config)


def _unwanted(name: str, container: str) -> DeleteEndpointRequest:
    return DeleteEndpointRequest(tenant_name="default", network_name=name, endpoint_id=container)


def _reserved(place: tuple[str, str], ip: str = "") -> AllocAddressRequest:
    name, of_group = place
    nid = f"{name}:{of_group}.default" if of_group else f"{name}.default"
    return AllocAddressRequest(network_id=nid, preferred=ip)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


TestAddressing = Addressing.TestCase
TestAddressing.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_the_checker_sees_an_address_that_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the bug: a pool that never changes, and a write without a precondition."""
    machine = Addressing()
    try:
        machine.create(("rng", ""), "a")
        machine.the_store_is_sound_and_as_acknowledged()
        first = IPv4Address("10.3.0.10")
        monkeypatch.setattr(Pool, "lowest", lambda *_, **__: int(first))
        monkeypatch.setattr(grants, "grant_write", _careless_write)
        monkeypatch.setattr(endpoint, "grant_write", _careless_write)
        machine.ask(endpoint.create, _wanted(("rng", ""), "b", ""), NOW)
        assert "10.3.0.10 on rng is held 2 times" in violations(stored(machine.store))
        with pytest.raises(AssertionError):
            machine.the_store_is_sound_and_as_acknowledged()
    finally:
        machine.teardown()


def _careless_write(source: grants.AddressSource, ip: str, grant: GrantRecord) -> Write:
    return Write(keys.grant(source.network.id, ip), grant, new=False)


def test_the_checker_sees_what_was_acknowledged_and_is_gone() -> None:
    machine = Addressing()
    try:
        machine.create(("n1", ""), "a")
        values = stored(machine.store)
        del values[keys.GRANTS + "n1.default/10.1.1.1"]
        assert violations(values) == ["n1.default-a uses 10.1.1.1 on n1 without holding it"]
        assert len(differences(values, machine.model)) == 1
        del values[keys.ENDPOINTS + "n1.default-a"]
        assert violations(values) == []
        assert len(differences(values, machine.model)) == 1
    finally:
        machine.teardown()
