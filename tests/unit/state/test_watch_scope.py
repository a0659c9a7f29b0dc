"""`state.watch_scope` and the feed with one: what is held, dropped, and read before `SyncedTo`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from core import keys
from core.ids import HostLabel, NetworkId
from core.retry import begin_loops
from core.tasks import background
from objdb.api import Change, Delete, Entry, Keep, Put, Snapshot, keep_all
from objdb.memory import Faults, MemoryBackend, MemoryStore
from state import codec
from state.held_networks import HeldNetworks
from state.records import (
    Encap,
    EndpointRecord,
    GlobalRecord,
    NetworkRecord,
    NetworkType,
    Record,
)
from state.watch import AGENT_PREFIXES, Changed, Event, RecordFeed, Removed, ScopeChanged, SyncedTo
from state.watch_scope import WatchScope
from tests.bed.waiting import WITHIN, eventually
from tests.unit.netplugin.records import HOST, PEER, endpoint, network

RED, RED2, BLUE = (NetworkId(one) for one in ("n1.red", "n2.red", "n1.blue"))


def put(record: Record, key: str) -> Change:
    return Change((), (Put(key, codec.encode(record)),))


def net(nid: str, encap: Encap = Encap.VXLAN) -> NetworkRecord:
    name, _, tenant = nid.partition(".")
    return network(name, tenant, encap=encap)


def pod(nid: NetworkId, number: int, host: HostLabel = PEER) -> EndpointRecord:
    return endpoint(number, host=host, nid=nid)


def fill(store: MemoryStore, *records: EndpointRecord | NetworkRecord) -> None:
    for one in records:
        key = keys.endpoint(one.key) if isinstance(one, EndpointRecord) else keys.network(one.id)
        store.apply([put(one, key)])


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    fill(store, *(net(nid) for nid in (RED, RED2, BLUE)))
    fill(store, *(pod(nid, number) for nid in (RED, RED2, BLUE) for number in (1, 2)))
    return store


@asynccontextmanager
async def feeding(
    store: MemoryStore, faults: Faults | None = None, *, look_after: float = 0.0
) -> AsyncIterator[tuple[RecordFeed, WatchScope]]:
    scope, backend = WatchScope(HOST), MemoryBackend(store, faults)
    feed = RecordFeed(backend, AGENT_PREFIXES, scope, look_after=look_after)
    async with background("feed", feed.run()):
        yield feed, scope
    await backend.close()


async def until_reached(feed: RecordFeed, rev: int, prefix: str = keys.ENDPOINTS) -> list[Event]:
    events: list[Event] = []
    async with asyncio.timeout(WITHIN):
        while not any(
            isinstance(one, SyncedTo) and one.prefix == prefix and one.rev >= rev for one in events
        ):
            events += await feed.take()
    return events


def held_on(feed: RecordFeed) -> dict[str, int]:
    """Return the number of endpoints held of each network."""
    found: dict[str, int] = {}
    for record in feed.records.values():
        if isinstance(record, EndpointRecord):
            found[record.network] = found.get(record.network, 0) + 1
    return found


def rev_of(store: MemoryStore, prefix: str = keys.ENDPOINTS) -> int:
    return store.snapshot(prefix).rev


async def test_a_host_without_pods_holds_no_endpoints(store: MemoryStore) -> None:
    async with feeding(store) as (feed, _):
        await until_reached(feed, rev_of(store))
        fill(store, pod(RED, 3))
        await until_reached(feed, rev_of(store))
        assert held_on(feed) == {}


async def test_a_first_pod_brings_its_tenants_endpoints_before_its_revision(
    store: MemoryStore,
) -> None:
    async with feeding(store) as (feed, _):
        await until_reached(feed, rev_of(store))
        fill(store, pod(RED, 9, HOST))
        events = await until_reached(feed, rev_of(store))
    changed = [one.record for one in events if isinstance(one, Changed)]
    expected = [pod(RED, 9, HOST), *(pod(nid, n) for nid in (RED, RED2) for n in (1, 2))]
    assert sorted(changed, key=repr) == sorted(expected, key=repr)
    assert isinstance(events[-1], SyncedTo)
    assert ScopeChanged(frozenset({RED, RED2})) in events


async def until_held(feed: RecordFeed, held: dict[str, int]) -> None:
    async with asyncio.timeout(WITHIN):
        while held_on(feed) != held:
            await feed.take()


async def test_a_restarted_agent_reads_what_its_pods_may_meet_and_then_the_rest(
    store: MemoryStore,
) -> None:
    fill(store, pod(RED, 9, HOST))
    async with feeding(store, look_after=0.05) as (feed, scope):
        scope.follow(lambda: [BLUE])  # the journal's: the store has lost that pod
        await until_reached(feed, rev_of(store))
        assert held_on(feed) == {BLUE: 2}
        await until_held(feed, {RED: 3, RED2: 2, BLUE: 2})


async def test_a_pod_that_comes_while_a_snapshot_is_read_brings_its_network(
    store: MemoryStore,
) -> None:
    fill(store, pod(RED, 9, HOST))
    answers = iter([list[NetworkId]()])
    async with feeding(store, look_after=60) as (feed, scope):
        scope.follow(lambda: next(answers, [RED]))  # the reading begins; the snapshot is there
        await until_reached(feed, rev_of(store))
        assert held_on(feed) == {RED: 3, RED2: 2}


async def test_own_endpoints_are_held_wherever_they_are(store: MemoryStore) -> None:
    lost = endpoint(9, nid=NetworkId("gone.away"))
    fill(store, lost)
    async with feeding(store) as (feed, _):
        await until_held(feed, {"gone.away": 1})
        store.apply([Change((), (Delete(keys.endpoint(lost.key)),))])
        await until_held(feed, {})


async def test_own_endpoints_elsewhere_outlive_a_resync_while_they_are_there(
    store: MemoryStore,
) -> None:
    stays, goes = (endpoint(number, nid=NetworkId("gone.away")) for number in (8, 9))
    fill(store, stays, goes)
    async with feeding(store) as (feed, _):
        await until_held(feed, {"gone.away": 2})
        store.lose_continuity()
        store.apply([Change((), (Delete(keys.endpoint(goes.key)),))])
        await until_reached(feed, rev_of(store))
        assert held_on(feed) == {"gone.away": 1}


async def test_what_is_gone_when_it_is_read_again_is_not_held(store: MemoryStore) -> None:
    """A look is older than what the watch has delivered when it ends."""
    lost = endpoint(9, nid=NetworkId("gone.away"))
    fill(store, lost)
    backend = _Slow(store)
    feed = RecordFeed(backend, AGENT_PREFIXES, WatchScope(HOST), look_after=0)
    async with background("feed", feed.run()), asyncio.timeout(WITHIN):
        await backend.looked.wait()
        store.apply([Change((), (Delete(keys.endpoint(lost.key)),))])
        await until_reached(feed, rev_of(store))
        backend.go_on.set()
        await backend.asked.wait()
        assert held_on(feed) == {}
    await backend.close()


class _Slow(MemoryBackend):
    """A store whose snapshots are answered late, with what was there when they were asked for."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.looked, self.go_on, self.asked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def snapshot(self, prefix: str, keep: Keep = keep_all) -> Snapshot:
        found = await super().snapshot(prefix, keep)
        self.looked.set()
        await self.go_on.wait()
        return found

    async def get(self, key: str) -> Entry | None:
        self.asked.set()
        return await super().get(key)


async def test_a_look_for_own_endpoints_outlasts_an_outage(store: MemoryStore) -> None:
    loops = begin_loops()
    fill(store, endpoint(9, nid=NetworkId("gone.away")))
    faults = Faults()
    async with feeding(store, faults, look_after=0.05) as (feed, _):
        await until_reached(feed, rev_of(store))
        faults.reachable.clear()
        await asyncio.to_thread(
            eventually, lambda: loops.failures["store unavailable"] > 0, "the look fails"
        )
        assert held_on(feed) == {}
        faults.reachable.set()
        await until_held(feed, {"gone.away": 1})


async def test_a_network_that_is_added_to_the_tenant_is_read(store: MemoryStore) -> None:
    fill(store, pod(RED, 9, HOST), pod(NetworkId("n3.red"), 1))
    async with feeding(store) as (feed, scope):
        scope.follow(lambda: [RED])
        await until_reached(feed, rev_of(store))
        fill(store, net("n3.red"))
        await until_reached(feed, rev_of(store, keys.NETWORKS), keys.NETWORKS)
        assert held_on(feed)["n3.red"] == 1


async def test_what_is_of_no_concern_is_dropped_after_a_while(store: MemoryStore) -> None:
    own = pod(RED, 9, HOST)
    fill(store, own)
    now = iter((1.0, 30.0, 62.0))
    async with feeding(store) as (feed, scope):
        used = [RED]
        scope.follow(lambda: used)
        networks = HeldNetworks(feed, scope, kept=60.0, clock=now.__next__)
        await until_reached(feed, rev_of(store))
        used.clear()
        store.apply([Change((), (Delete(keys.endpoint(own.key)),))])
        await until_reached(feed, rev_of(store))
        for _ in range(2):
            await networks.converge()
            assert held_on(feed) == {RED: 2, RED2: 2}
        await networks.converge()
        assert held_on(feed) == {}
        events = await feed.take()
        assert ScopeChanged(frozenset()) in events
        assert sum(isinstance(one, Removed) for one in events) == 4


async def test_a_resync_keeps_and_forgets_what_it_should(store: MemoryStore) -> None:
    fill(store, pod(RED, 9, HOST))
    async with feeding(store) as (feed, scope):
        await until_held(feed, {RED: 3, RED2: 2})
        scope.follow(lambda: [BLUE])
        await feed.extend()
        assert held_on(feed) == {RED: 3, RED2: 2, BLUE: 2}
        store.lose_continuity()
        store.apply([Change((), (Delete(keys.endpoint(pod(BLUE, 1).key)),))])
        await until_reached(feed, rev_of(store))
        assert held_on(feed) == {RED: 3, RED2: 2, BLUE: 1}


@pytest.mark.parametrize(("mode", "held"), [("routing", {RED, BLUE}), ("bridge", {RED})])
def test_routed_vlan_networks_are_one(mode: str, held: set[NetworkId]) -> None:
    scope = WatchScope(HOST)
    scope.put(GlobalRecord(infra_type="", fwd_mode=mode, arp_mode="", pvt_subnet=""))
    scope.put(net(RED, encap=Encap.VLAN))
    scope.put(net(BLUE, encap=Encap.VLAN))
    scope.put(net("n2.blue"))
    scope.put(pod(RED, 1, HOST))
    assert scope.networks == held


def test_hosts_on_infra_networks_concern_everyone() -> None:
    scope = WatchScope(HOST)
    scope.put(replace(net(BLUE), type=NetworkType.INFRA))
    assert scope.networks == {BLUE}


def test_a_key_that_can_be_read_in_two_ways_may_be_held() -> None:
    scope = WatchScope(HOST)
    one, two = NetworkId("n1.red"), NetworkId("n1.red-x")
    entry = endpoint(1, host=PEER, nid=two, container="c1")
    key, value = keys.endpoint(entry.key), codec.encode(entry)
    assert scope.may_hold(key, value, {one})
    assert scope.may_hold(key, value, {two})
    assert not scope.may_hold(key, value, {BLUE})
    assert not scope.holds(entry, {one})
