"""Hosts without agents: when their absence is confirmed, what follows, and what proves nothing."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from contivmodel.rpc import AddressBlocksRequest
from core import keys
from core.errors import ContivError, StoreUnavailable
from core.ids import HostLabel, NetworkId
from netmaster.hosts.cleanups import Cleanups
from netmaster.hosts.dead_hosts import CONFIRMATION, RECLAIMED, SCAN_INTERVAL, Clocks, DeadHosts
from netmaster.plan.endpoints import address_blocks
from netmaster.plan.endpoints.address_blocks import BlocksReply, Renewal
from netmaster.stored import HostAbsence
from objdb.api import Change, Delete, Put
from objdb.memory import Faults, MemoryStore
from state import codec
from state.records import EndpointRecord, HostRecord, ServiceInstance
from tests.unit.netmaster.term import Term, term

H1, H2 = HostLabel("h1"), HostLabel("h2")
AFTER = 100.0
LEASE = 150.0
START = 5000.0


def address_of(label: HostLabel) -> str:
    """Return an address of a host's own."""
    return f"10.0.0.{ord(label[-1])}"


@dataclass
class Watch:
    """A leader that scans for dead hosts, with clocks that a test moves."""

    lead: Term
    faults: Faults
    after: float = AFTER
    at: float = 0.0
    wall: float = START
    reclaimed: list[str] = field(default_factory=list)
    back_on_reclaim: HostLabel | None = None
    """Whose agent registers while another's endpoints go."""
    tally: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        cleanups = Cleanups(self.lead.committer, self.reclaim)
        self.dead_hosts = DeadHosts(
            self.lead.backend,
            self.lead.committer,
            cleanups,
            after=self.after,
            tally=self.tally,
            clocks=Clocks(wall=lambda: self.wall, monotonic=lambda: self.at),
        )

    async def reclaim(self, endpoint: EndpointRecord) -> None:
        self.reclaimed.append(endpoint.endpoint_id)
        if self.back_on_reclaim is not None:
            await self.register(self.back_on_reclaim)

    async def scan_for(self, seconds: float) -> None:
        """Scan periodically for so long."""
        for _ in range(int(seconds / SCAN_INTERVAL)):
            self.at += SCAN_INTERVAL
            self.wall += SCAN_INTERVAL
            await self.dead_hosts.scan()

    async def put(self, key: str, value: bytes) -> None:
        await self.lead.backend.commit([Change((), (Put(key, value),))])

    async def host(self, label: HostLabel, machine: str = "") -> None:
        """Write a host's record, as its agent does when it starts."""
        own = address_of(label)
        record = HostRecord(
            label=label, control_ip=own, vtep_ip=own, vxlan_port=4789, host_id=machine
        )
        await self.put(keys.host(label), codec.encode(record))

    async def register(self, label: HostLabel) -> None:
        instance = ServiceInstance(
            service=keys.SERVICE_NETPLUGIN, address=address_of(label), port=9002, hostname=label
        )
        await self.put(self._service(label), codec.encode(instance))

    async def vanish(self, label: HostLabel) -> None:
        await self.lead.backend.commit([Change((), (Delete(self._service(label)),))])

    def _service(self, label: HostLabel) -> str:
        return keys.service(keys.SERVICE_NETPLUGIN, address_of(label), 9002)

    def missing(self) -> dict[HostLabel, float]:
        return {label: absence.since for label, absence in self.lead.stored().absences.items()}

    def has_host(self, label: HostLabel) -> bool:
        return self.lead.backend.store.get(keys.host(label)) is not None


@asynccontextmanager
async def watching(
    store: MemoryStore | None = None, *, after: float = AFTER, wall: float = START
) -> AsyncIterator[Watch]:
    faults = Faults()
    async with term(store or MemoryStore(), faults) as lead:
        yield Watch(lead, faults, after=after, wall=wall)


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    """Lead a cluster of two hosts, whose agents run, with three endpoints."""
    async with watching() as watch:
        await watch.lead.network("n1")
        for container, host in (("a", H1), ("b", H1), ("c", H2)):
            await watch.lead.endpoint(container, host=host)
        for label in (H1, H2):
            await watch.host(label)
            await watch.register(label)
        yield watch


async def test_a_dead_host_s_endpoints_and_its_record_go(watch: Watch) -> None:
    await watch.scan_for(SCAN_INTERVAL)
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION)
    assert watch.missing() == {}
    await watch.scan_for(SCAN_INTERVAL)
    (since,) = watch.missing().values()
    await watch.scan_for(AFTER - SCAN_INTERVAL)
    assert len(watch.lead.stored().endpoints) == 3
    await watch.scan_for(SCAN_INTERVAL)
    assert watch.wall == since + AFTER
    stored = watch.lead.stored()
    assert set(stored.endpoints) == {"n1.default-c"}
    assert list(stored.addresses[NetworkId("n1.default")].grants) == ["10.1.1.3"]
    assert (stored.absences, stored.cleanups) == ({}, {})
    assert (watch.has_host(H1), watch.has_host(H2)) == (False, True)
    assert sorted(watch.reclaimed) == ["a", "b"]
    assert watch.tally == {RECLAIMED: 2}


async def test_a_renamed_host_keeps_its_pods_until_the_last_has_gone(watch: Watch) -> None:
    await watch.host(H1, "machine")
    await watch.scan_for(SCAN_INTERVAL)
    await watch.vanish(H1)
    renamed = HostLabel("renamed3")
    await watch.host(renamed, "machine")
    await watch.register(renamed)
    await watch.scan_for(CONFIRMATION + 2 * AFTER)
    assert len(watch.lead.stored().endpoints) == 3
    assert watch.has_host(H1)
    for container in ("a", "b"):
        await watch.lead.delete_endpoint(container)
    await watch.scan_for(SCAN_INTERVAL)
    assert (watch.has_host(H1), watch.has_host(renamed)) == (False, True)


async def test_another_machine_keeps_no_pods_of_a_dead_host(watch: Watch) -> None:
    await watch.host(H1, "machine")
    await watch.host(H2, "another")
    await watch.scan_for(SCAN_INTERVAL)
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + 2 * AFTER)
    assert set(watch.lead.stored().endpoints) == {"n1.default-c"}


async def hold_ahead(
    watch: Watch, label: HostLabel, last: BlocksReply | None = None
) -> BlocksReply:
    """Renew a host's lease on addresses that it holds ahead of its pods."""
    request = AddressBlocksRequest(
        host=label,
        lease=last.lease if last else "",
        number=last.number if last else 0,
        held=[f"n1.default/{one.ipv4}" for one in last.granted] if last else [],
        wanted={"n1.default": "2"},
    )
    how = Renewal("lease", LEASE, watch.wall)
    reply = await watch.lead.committer.submit(lambda view: address_blocks.renew(view, request, how))
    assert isinstance(reply, BlocksReply)
    return reply


def leases(watch: Watch) -> set[HostLabel]:
    return set(watch.lead.stored().block_leases)


def blocked(watch: Watch) -> int:
    return sum(map(len, watch.lead.stored().blocks.values()))


async def test_a_host_keeps_all_until_its_lease_is_over(watch: Watch) -> None:
    await hold_ahead(watch, H1)
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + LEASE)
    assert (leases(watch), blocked(watch)) == ({H1}, 2)
    assert len(watch.lead.stored().endpoints) == 3
    await watch.scan_for(SCAN_INTERVAL)
    assert (leases(watch), blocked(watch)) == (set(), 0)
    assert set(watch.lead.stored().endpoints) == {"n1.default-c"}


async def test_a_host_that_renews_its_lease_is_counted_anew(watch: Watch) -> None:
    """It reaches the leader, and its registration in the store is gone all the while."""
    first = await hold_ahead(watch, H1)
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + LEASE - SCAN_INTERVAL)
    await hold_ahead(watch, H1, first)
    await watch.scan_for(LEASE)
    assert leases(watch) == {H1}
    await watch.scan_for(2 * SCAN_INTERVAL)
    assert leases(watch) == set()


async def test_a_removed_host_s_addresses_come_back_when_its_lease_is_over(watch: Watch) -> None:
    await hold_ahead(watch, H1)
    await watch.vanish(H1)
    await watch.lead.backend.commit([Change((), (Delete(keys.host(H1)),))])
    await watch.scan_for(CONFIRMATION + LEASE)
    assert blocked(watch) == 2
    await watch.scan_for(SCAN_INTERVAL)
    assert (leases(watch), blocked(watch)) == (set(), 0)


async def test_an_agent_that_is_back_in_time_keeps_everything(watch: Watch) -> None:
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + AFTER)
    assert set(watch.missing()) == {H1}
    await watch.register(H1)
    await watch.scan_for(SCAN_INTERVAL)
    assert watch.missing() == {}
    await watch.scan_for(2 * AFTER)
    assert len(watch.lead.stored().endpoints) == 3


async def test_an_agent_that_starts_and_is_not_registered_yet_is_there(watch: Watch) -> None:
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + AFTER)
    await watch.host(H1)
    await watch.scan_for(CONFIRMATION)
    assert watch.missing() == {}
    assert len(watch.lead.stored().endpoints) == 3


async def test_a_store_that_could_not_be_read_proves_nothing(watch: Watch) -> None:
    await watch.vanish(H1)
    for _ in range(40):
        await watch.scan_for(CONFIRMATION)
        watch.faults.reachable.clear()
        with pytest.raises(ContivError):
            await watch.scan_for(SCAN_INTERVAL)
        watch.faults.reachable.set()
        watch.dead_hosts.forget_absences()
        assert watch.missing() == {}
    assert len(watch.lead.stored().endpoints) == 3


async def test_a_leader_that_stood_still_has_seen_nothing(watch: Watch) -> None:
    await watch.vanish(H1)
    for _ in range(10):
        await watch.scan_for(CONFIRMATION)
        watch.at += 3 * SCAN_INTERVAL
        assert watch.missing() == {}


async def test_an_empty_registry_after_a_store_outage_removes_no_host() -> None:
    store = MemoryStore()
    async with watching(store) as before:
        await before.lead.network("n1")
        await before.lead.endpoint("a", host=H1)
        await before.host(H1)
        await before.scan_for(CONFIRMATION + SCAN_INTERVAL)
        assert set(before.missing()) == {H1}
    # the store was away for days: leases are gone, and the agent registers a moment later
    async with watching(store, wall=START + 9 * AFTER) as after:
        await after.scan_for(CONFIRMATION)
        await after.register(H1)
        await after.scan_for(2 * AFTER)
        assert after.missing() == {}
        assert len(after.lead.stored().endpoints) == 1


async def test_how_long_a_host_is_absent_survives_a_change_of_leader() -> None:
    store = MemoryStore()
    async with watching(store) as before:
        await before.lead.network("n1")
        await before.lead.endpoint("a", host=H1)
        await before.host(H1)
        await before.scan_for(CONFIRMATION + SCAN_INTERVAL + AFTER / 2)
        assert before.lead.stored().absences[H1].seconds == AFTER / 2
    async with watching(store) as after:
        await after.scan_for(CONFIRMATION + SCAN_INTERVAL + AFTER / 2 - SCAN_INTERVAL)
        assert len(after.lead.stored().endpoints) == 1
        await after.scan_for(SCAN_INTERVAL)
        assert after.lead.stored().endpoints == {}


async def test_a_next_leader_whose_clock_is_ahead_keeps_hosts() -> None:
    """The finding of docs/notes/trust.md §7."""
    store = MemoryStore()
    async with watching(store) as before:
        await before.lead.network("n1")
        await before.lead.endpoint("a", host=H1)
        await before.host(H1)
        await before.scan_for(CONFIRMATION + SCAN_INTERVAL)
        assert set(before.missing()) == {H1}
    async with watching(store, wall=START + 9 * AFTER) as after:
        await after.scan_for(CONFIRMATION + SCAN_INTERVAL)
        assert len(after.lead.stored().endpoints) == 1
        assert set(after.missing()) == {H1}


async def test_a_clock_that_is_set_back_keeps_no_host_for_ever(watch: Watch) -> None:
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + SCAN_INTERVAL)
    watch.wall -= 9 * AFTER
    await watch.scan_for(AFTER)
    assert set(watch.lead.stored().endpoints) == {"n1.default-c"}


async def test_time_without_scans_does_not_count(watch: Watch) -> None:
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + SCAN_INTERVAL)
    watch.at += AFTER
    watch.wall += AFTER
    await watch.scan_for(AFTER)
    assert len(watch.lead.stored().endpoints) == 3


async def test_a_record_written_anew_at_the_last_moment_is_not_removed(watch: Watch) -> None:
    await watch.vanish(H1)
    await watch.scan_for(CONFIRMATION + SCAN_INTERVAL)
    stale = watch.lead.view.absences[H1]
    await watch.host(H1)
    with pytest.raises(StoreUnavailable, match="host/h1 was changed by another writer"):
        await Cleanups(watch.lead.committer, watch.reclaim).remove_host(H1, stale.rev, now=0.0)
    assert watch.has_host(H1)
    assert watch.lead.stored().cleanups == {}
    assert watch.lead.stored().absences[H1] == HostAbsence(H1, stale.since, stale.rev)


async def test_a_host_that_is_back_while_another_is_given_up_is_kept(watch: Watch) -> None:
    await watch.scan_for(SCAN_INTERVAL)
    for label in (H1, H2):
        await watch.vanish(label)
    watch.back_on_reclaim = H2
    await watch.scan_for(CONFIRMATION + AFTER + 2 * SCAN_INTERVAL)
    assert set(watch.lead.stored().endpoints) == {"n1.default-c"}
    assert watch.missing() == {}
    assert watch.has_host(H2)


async def test_hosts_may_be_kept_for_ever() -> None:
    async with watching(after=0) as watch:
        await watch.lead.network("n1")
        await watch.lead.endpoint("a", host=H1)
        await watch.host(H1)
        await watch.scan_for(1000 * SCAN_INTERVAL)
        assert set(watch.missing()) == {H1}
        assert len(watch.lead.stored().endpoints) == 1
