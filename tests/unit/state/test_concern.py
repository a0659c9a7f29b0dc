"""`state.concern` and the feed with one: what is held, dropped, and read before `Reached`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from core import keys
from core.ids import HostLabel, NetworkId
from core.tasks import background
from netplugin.startup.held_networks import HeldNetworks
from objdb.api import Change, Delete, Put
from objdb.memory import MemoryBackend, MemoryStore
from state import codec
from state.concern import Concern
from state.records import (
    Encap,
    EndpointRecord,
    GlobalRecord,
    NetworkRecord,
    NetworkType,
    Record,
)
from state.watch import AGENT_PREFIXES, Changed, Event, Held, Reached, RecordFeed, Removed
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
async def feeding(store: MemoryStore) -> AsyncIterator[tuple[RecordFeed, Concern]]:
    concern, backend = Concern(HOST), MemoryBackend(store)
    feed = RecordFeed(backend, AGENT_PREFIXES, concern)
    async with background("feed", feed.run()):
        yield feed, concern
    await backend.close()


async def until_reached(feed: RecordFeed, rev: int, prefix: str = keys.ENDPOINTS) -> list[Event]:
    events: list[Event] = []
    async with asyncio.timeout(5):
        while not any(
            isinstance(one, Reached) and one.prefix == prefix and one.rev >= rev for one in events
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
    assert isinstance(events[-1], Reached)
    assert Held(frozenset({RED, RED2})) in events


async def test_a_restarted_agent_reads_what_its_pods_may_meet(store: MemoryStore) -> None:
    fill(store, pod(RED, 9, HOST))
    async with feeding(store) as (feed, concern):
        concern.use([BLUE])  # the journal's: the store has lost that pod
        await until_reached(feed, rev_of(store))
        assert held_on(feed) == {RED: 3, RED2: 2, BLUE: 2}


async def test_own_endpoints_are_held_wherever_they_are(store: MemoryStore) -> None:
    lost = endpoint(9, nid=NetworkId("gone.away"))
    fill(store, lost)
    async with feeding(store) as (feed, _):
        await until_reached(feed, rev_of(store))
        assert feed.records[keys.endpoint(lost.key)] == lost


async def test_a_network_that_is_added_to_the_tenant_is_read(store: MemoryStore) -> None:
    fill(store, pod(RED, 9, HOST), pod(NetworkId("n3.red"), 1))
    async with feeding(store) as (feed, _):
        await until_reached(feed, rev_of(store))
        fill(store, net("n3.red"))
        await until_reached(feed, rev_of(store, keys.NETWORKS), keys.NETWORKS)
        assert held_on(feed)["n3.red"] == 1


async def test_what_is_of_no_concern_is_dropped_after_a_while(store: MemoryStore) -> None:
    own = pod(RED, 9, HOST)
    fill(store, own)
    now = iter((1.0, 30.0, 62.0))
    async with feeding(store) as (feed, concern):
        networks = HeldNetworks(feed, concern, lambda: (), kept=60.0, clock=now.__next__)
        await until_reached(feed, rev_of(store))
        store.apply([Change((), (Delete(keys.endpoint(own.key)),))])
        await until_reached(feed, rev_of(store))
        for _ in range(2):
            await networks.converge()
            assert held_on(feed) == {RED: 2, RED2: 2}
        await networks.converge()
        assert held_on(feed) == {}
        events = await feed.take()
        assert Held(frozenset()) in events
        assert sum(isinstance(one, Removed) for one in events) == 4


async def test_a_resync_keeps_and_forgets_what_it_should(store: MemoryStore) -> None:
    fill(store, pod(RED, 9, HOST))
    async with feeding(store) as (feed, concern):
        await until_reached(feed, rev_of(store))
        concern.use([BLUE])
        await feed.extend()
        assert held_on(feed) == {RED: 3, RED2: 2, BLUE: 2}
        store.lose_continuity()
        store.apply([Change((), (Delete(keys.endpoint(pod(BLUE, 1).key)),))])
        await until_reached(feed, rev_of(store))
        assert held_on(feed) == {RED: 3, RED2: 2, BLUE: 1}


@pytest.mark.parametrize(("mode", "held"), [("routing", {RED, BLUE}), ("bridge", {RED})])
def test_routed_vlan_networks_are_one(mode: str, held: set[NetworkId]) -> None:
    concern = Concern(HOST)
    concern.put(GlobalRecord(infra_type="", fwd_mode=mode, arp_mode="", pvt_subnet=""))
    concern.put(net(RED, encap=Encap.VLAN))
    concern.put(net(BLUE, encap=Encap.VLAN))
    concern.put(net("n2.blue"))
    concern.put(pod(RED, 1, HOST))
    assert concern.networks == held


def test_hosts_on_infra_networks_concern_everyone() -> None:
    concern = Concern(HOST)
    concern.put(replace(net(BLUE), type=NetworkType.INFRA))
    assert concern.networks == {BLUE}


def test_a_key_that_can_be_read_in_two_ways_may_be_held() -> None:
    concern = Concern(HOST)
    one, two = NetworkId("n1.red"), NetworkId("n1.red-x")
    entry = endpoint(1, host=PEER, nid=two, container="c1")
    key, value = keys.endpoint(entry.key), codec.encode(entry)
    assert concern.may_hold(key, value, {one})
    assert concern.may_hold(key, value, {two})
    assert not concern.may_hold(key, value, {BLUE})
    assert not concern.holds(entry, {one})
