"""The committer: groups, order, and what happens when the view is out of sync with the store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from contivmodel.objects import Netprofile
from core import keys
from core.errors import (
    Conflict,
    Exhausted,
    Invalid,
    NotFound,
    NotLeader,
    StoreDenied,
    StoreUnavailable,
    TooLarge,
)
from core.ids import NetworkId
from core.tasks import background
from netmaster import codec
from netmaster.commits.commit import Committer, CommitTiming, WriteAuthority
from netmaster.commits.standby import following
from netmaster.host_progress import Applicable, unapplied_reason
from netmaster.plan.model import Plan
from netmaster.plan.objects import group, netprofile, network, policy
from netmaster.plan.show import inspect
from netmaster.stored import Write
from netmaster.view import View
from objdb.api import Change, Delete, Delta, Fence, Parts, Put, Snapshot
from objdb.memory import Faults, LostAnswer, MemoryBackend, MemoryStore
from ofnet.rpc.control import AgentReport, Node
from state.records import GrantOwner, GrantRecord
from state.watch import RecordFeed, SyncedTo
from tests.unit.netmaster.scene import a_group, a_policy, shown
from tests.unit.netmaster.term import Term, idle, load, outcome, term

PROFILE = Netprofile(tenant_name="default", profile_name="p", bandwidth="5Mb")
FOREIGN = codec.encode(GrantRecord(owner=GrantOwner.VIP, owner_id="x", seq=99))


@asynccontextmanager
async def checked_term(timing: CommitTiming) -> AsyncIterator[Term]:
    """Lead a cluster with a network; at the end, view and store must agree."""
    async with term(timing=timing) as lead:
        await lead.network("n1")
        yield lead
        if not lead.ended.done():
            await lead.committer.flush()
            assert shown(lead.view) == shown(lead.stored())


@pytest.fixture
async def lead() -> AsyncIterator[Term]:
    async with checked_term(CommitTiming()) as lead:
        yield lead


@pytest.fixture
async def patient() -> AsyncIterator[Term]:
    """Lead, and wait for as many changes as the last group had."""
    async with checked_term(CommitTiming(gather=60.0)) as lead:
        yield lead


def _foreign(lead: Term, *ops: Put | Delete) -> None:
    lead.backend.store.apply([Change((), ops)])


def _unknown(answer: object) -> bool:
    return isinstance(answer, StoreUnavailable) and answer.outcome_unknown


async def _rebuilt(lead: Term, before: View) -> None:
    """Wait until the view was replaced."""
    while lead.view is before:
        await lead.committer.flush()
        await asyncio.sleep(0)


async def test_a_change_is_answered_when_it_is_in_the_store(lead: Term) -> None:
    assert await lead.endpoint("c1") == "10.1.1.1"
    assert shown(lead.stored()) == shown(lead.view)


async def test_queued_changes_share_a_commit(lead: Term) -> None:
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        created = [tasks.create_task(lead.endpoint(f"c{number}")) for number in range(20)]
        await lead.backend.arrived.wait()
    assert lead.backend.commits == [20]
    assert {task.result() for task in created} == {f"10.1.1.{n}" for n in range(1, 21)}


async def test_a_commit_stays_within_the_stores_limits(lead: Term) -> None:
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        for number in range(200):
            tasks.create_task(lead.endpoint(f"c{number}"))
        await lead.backend.arrived.wait()
    assert sum(lead.backend.commits) == 200
    assert len(lead.backend.commits) == 2


async def test_callers_answered_together_share_the_next_commit(patient: Term) -> None:
    lead = patient
    async with lead.held() as tasks:
        for number in range(3):
            tasks.create_task(lead.endpoint(f"c{number}"))
        await lead.backend.arrived.wait()
    lead.backend.commits.clear()
    async with asyncio.TaskGroup() as tasks:
        for number in range(3, 6):
            tasks.create_task(lead.endpoint(f"c{number}"))
            await idle()
            assert lead.backend.commits == ([] if number < 5 else [3])


async def test_a_single_caller_does_not_wait_long_for_a_group(lead: Term) -> None:
    async with lead.held() as tasks:
        for number in range(3):
            tasks.create_task(lead.endpoint(f"c{number}"))
        await lead.backend.arrived.wait()
    lead.backend.commits.clear()
    await lead.endpoint("c3")
    await lead.endpoint("c4")
    assert lead.backend.commits == [1, 1]


async def test_a_term_that_ends_while_a_group_is_gathered(patient: Term) -> None:
    lead = patient
    async with lead.held() as tasks:
        for number in range(3):
            tasks.create_task(lead.endpoint(f"c{number}"))
        await lead.backend.arrived.wait()
    async with asyncio.TaskGroup() as tasks:
        alone = tasks.create_task(outcome(lead.endpoint("c3")))
        await asyncio.sleep(0)
        await lead.backend.close()
    assert isinstance(alone.result(), NotLeader)


async def test_a_change_that_others_rest_on_is_committed_alone(lead: Term) -> None:
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        tasks.create_task(lead.endpoint("c1"))
        tasks.create_task(lead.endpoint("c2"))
        tasks.create_task(lead.network("n2", "10.2.0.0/24"))
        await asyncio.sleep(0)
        tasks.create_task(lead.endpoint("c3", "n2"))
        tasks.create_task(lead.endpoint("c4"))
        await lead.backend.arrived.wait()
    assert lead.backend.commits == [2, 1, 2]


async def test_new_networks_share_a_commit_and_new_groups_another(lead: Term) -> None:
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        for number in range(4):
            name = f"m{number}"
            tasks.create_task(
                lead.network(name, f"10.{number + 9}.0.0/24", gateway=f"10.{number + 9}.0.1")
            )
        await asyncio.sleep(0)
        for number in range(4):
            tasks.create_task(lead.group(f"g{number}", f"m{number}"))
        await asyncio.sleep(0)
        tasks.create_task(lead.endpoint("c1", "m1"))
        await lead.backend.arrived.wait()
    assert lead.backend.commits == [4, 4, 1]
    assert {record.group_id for record in lead.view.groups.values()} == {1, 2, 3, 4}


async def test_a_network_in_the_place_of_another_waits_for_its_end(lead: Term) -> None:
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        tasks.create_task(lead.committer.submit(lambda view: network.delete(view, "default:n1")))
        await asyncio.sleep(0)
        tasks.create_task(lead.network("m1"))
        tasks.create_task(lead.network("m2", "10.2.0.0/24"))
        await lead.backend.arrived.wait()
    assert lead.backend.commits == [1, 2]


async def test_of_new_networks_one_that_is_refused_fails_alone(lead: Term) -> None:
    async with lead.held() as tasks:
        refused = tasks.create_task(outcome(lead.network("m1", "10.2.0.0/24")))
        created = tasks.create_task(outcome(lead.network("m2", "10.3.0.0/24")))
        beside = tasks.create_task(outcome(lead.network("m3", "10.2.0.0/25")))
        await lead.backend.arrived.wait()
        _foreign(
            lead,
            Put(
                keys.NETWORKS + "m1.default",
                codec.encode(lead.view.networks[NetworkId("m1.default")]),
            ),
        )
    assert isinstance(refused.result(), StoreUnavailable)
    assert created.result() is None
    assert lead.stored().networks[NetworkId("m2.default")].ext_pkt_tag == 3
    # what was in its way did not come to be
    assert beside.result() is None


async def test_a_changed_group_goes_alone(lead: Term) -> None:
    await lead.group("g1")
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        tasks.create_task(lead.group("g2"))
        tasks.create_task(lead.committer.submit(lambda view: group.delete(view, "default:g1")))
        tasks.create_task(lead.group("g3"))
        await lead.backend.arrived.wait()
    assert lead.backend.commits == [1, 1, 1]


async def test_rules_share_a_commit_with_rules_alone(lead: Term) -> None:
    await lead.committer.submit(lambda view: policy.create(view, a_policy("p1")))
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        for number in range(5):
            tasks.create_task(lead.rule(str(number)))
        await asyncio.sleep(0)
        tasks.create_task(lead.endpoint("c1"))
        tasks.create_task(lead.endpoint("c2"))
        await asyncio.sleep(0)
        tasks.create_task(lead.rule("5"))
        tasks.create_task(lead.rule("6"))
        await lead.backend.arrived.wait()
    assert lead.backend.commits == [5, 2, 2]


async def test_a_policy_goes_after_the_rules_that_wait(lead: Term) -> None:
    await lead.committer.submit(lambda view: policy.create(view, a_policy("p1")))
    lead.backend.commits.clear()
    async with lead.held() as tasks:
        for number in range(3):
            tasks.create_task(lead.rule(str(number)))
        await lead.backend.arrived.wait()
        deleted = tasks.create_task(
            lead.committer.submit(lambda view: policy.delete(view, "default:p1"))
        )
        await asyncio.sleep(0)
        late = tasks.create_task(outcome(lead.rule("late")))
    assert lead.backend.commits == [3, 1]
    assert deleted.result() == "default:p1"
    assert isinstance(late.result(), NotFound)
    assert lead.stored().objects["rule"] == {}


async def test_a_large_policy_is_deleted_by_one_request(lead: Term) -> None:
    await lead.committer.submit(lambda view: policy.create(view, a_policy("p1")))
    count = 3 * policy.CHUNK + 1
    await asyncio.gather(*(lead.rule(str(number)) for number in range(count)))
    assert len(lead.stored().objects["rule"]) == count
    await lead.committer.submit(lambda view: policy.delete(view, "default:p1"))
    assert lead.stored().objects["rule"] == {}
    assert lead.stored().orphaned_rules == {}


@pytest.mark.parametrize("commits_before_the_end", range(5))
async def test_the_next_leader_finishes_a_deletion(commits_before_the_end: int) -> None:
    store = MemoryStore()
    faults = Faults()
    async with term(store, faults) as first:
        await first.committer.submit(lambda view: policy.create(view, a_policy("p1")))
        await asyncio.gather(*(first.rule(str(n)) for n in range(3 * policy.CHUNK)))
        first.backend.commits.clear()
        first.backend.last_commit = commits_before_the_end
        deletion = first.committer.submit(lambda view: policy.delete(view, "default:p1"))
        ended = await outcome(deletion)
        begun, whole = commits_before_the_end > 0, commits_before_the_end >= 3
        assert isinstance(ended, NotLeader) == (not begun)
        assert _unknown(ended) == (begun and not whole)
    before = load(store)
    assert ("default:p1" in before.objects["policy"]) != begun
    assert len(before.objects["rule"]) == (0 if begun else 3 * policy.CHUNK)
    async with term(store) as second:
        while await second.committer.submit(policy.sweep):
            pass
        after = second.stored()
        assert after.orphaned_rules == {}
        assert after.objects["rule"] == before.objects["rule"]


async def test_changes_of_one_key_follow_each_other(lead: Term) -> None:
    async with lead.held() as tasks:
        tasks.create_task(lead.endpoint("c1"))
        await lead.backend.arrived.wait()
        tasks.create_task(lead.delete_endpoint("c1"))
        await asyncio.sleep(0)
        again = tasks.create_task(lead.endpoint("c2"))
    assert again.result() == "10.1.1.1"
    assert list(lead.stored().endpoints) == ["n1.default-c2"]


async def test_no_reply_is_given_before_the_commit(lead: Term) -> None:
    async with lead.held() as tasks:
        first = tasks.create_task(lead.endpoint("c1"))
        await lead.backend.arrived.wait()
        same = tasks.create_task(lead.endpoint("c1"))
        taken = tasks.create_task(outcome(lead.endpoint("c2", ip_address="10.1.1.1")))
        seen = tasks.create_task(lead.committer.read(lambda view: len(view.endpoints)))
        flushed = tasks.create_task(lead.committer.flush())
        await idle()
        assert not any(task.done() for task in (first, same, taken, seen, flushed))
    assert first.result() == same.result() == "10.1.1.1"
    assert isinstance(taken.result(), Conflict)
    assert seen.result() == 1


async def test_a_read_without_pending_changes_answers_at_once(lead: Term) -> None:
    seen = await lead.committer.read(lambda view: inspect.network(view, "default:n1"))
    assert seen["numEndpoints"] == 0
    with pytest.raises(NotFound):
        await lead.committer.read(lambda view: inspect.network(view, "default:nope"))


async def test_a_refusal_that_rests_on_a_failed_change_is_decided_again(lead: Term) -> None:
    lead.backend.faults.lost_answers.append(LostAnswer.NOT_APPLIED)
    async with lead.held() as tasks:
        first = tasks.create_task(outcome(lead.endpoint("c1", ip_address="10.1.1.5")))
        await lead.backend.arrived.wait()
        second = tasks.create_task(outcome(lead.endpoint("c2", ip_address="10.1.1.5")))
        await asyncio.sleep(0)
    assert isinstance(first.result(), StoreUnavailable)
    assert second.result() == "10.1.1.5"


@pytest.mark.parametrize("lost", [LostAnswer.APPLIED, LostAnswer.NOT_APPLIED])
async def test_an_unknown_outcome_is_found_out(lead: Term, lost: LostAnswer) -> None:
    """The finding of docs/notes/trust.md §9."""
    lead.backend.faults.lost_answers.append(lost)
    async with lead.held() as tasks:
        unknown = tasks.create_task(outcome(lead.endpoint("c1")))
        await lead.backend.arrived.wait()
        waiting = tasks.create_task(outcome(lead.endpoint("c2")))
        await asyncio.sleep(0)
    failed = unknown.result()
    assert isinstance(failed, StoreUnavailable)
    assert failed.outcome_unknown
    assert isinstance(waiting.result(), StoreUnavailable)
    assert await lead.endpoint("c1") == "10.1.1.1"
    assert await lead.endpoint("c2") == "10.1.1.2"


async def test_the_lock_lost_ends_the_term(lead: Term) -> None:
    async with lead.held() as tasks:
        flying = tasks.create_task(outcome(lead.endpoint("c1")))
        await lead.backend.arrived.wait()
        waiting = tasks.create_task(outcome(lead.network("n2", "10.2.0.0/24")))
        await asyncio.sleep(0)
        _foreign(lead, Delete(keys.LEADER_LOCK))
    assert isinstance(flying.result(), NotLeader)
    assert isinstance(waiting.result(), NotLeader)
    assert isinstance(await lead.ended, NotLeader)
    assert str(await outcome(lead.endpoint("c3"))) == "Leader not found"
    assert isinstance(await outcome(lead.committer.flush()), NotLeader)
    assert list(lead.stored().endpoints) == []


async def test_the_end_of_run_fails_all_pending_changes() -> None:
    waiting = []
    async with asyncio.TaskGroup() as tasks, term() as lead:
        await lead.network("n1")
        lead.backend.gate.clear()
        lead.backend.arrived.clear()
        waiting.append(tasks.create_task(outcome(lead.endpoint("c1"))))
        await lead.backend.arrived.wait()
        waiting.append(tasks.create_task(outcome(lead.endpoint("c2"))))
        waiting.append(tasks.create_task(outcome(lead.committer.flush())))
        await asyncio.sleep(0)
    in_flight, queued, flushed = (task.result() for task in waiting)
    assert _unknown(in_flight), "the store may make this commit yet"
    assert isinstance(queued, NotLeader)
    assert isinstance(flushed, NotLeader)


async def test_no_reply_is_given_after_the_lease(lead: Term) -> None:
    await lead.endpoint("c1")
    lead.until[0] = 0.0
    assert isinstance(await outcome(lead.endpoint("c1")), NotLeader)
    assert isinstance(await outcome(lead.endpoint("c2", "nope")), NotLeader)
    assert isinstance(await outcome(lead.committer.read(lambda _: 1)), NotLeader)
    # a fenced commit happened, even if the clock is past the lease
    assert await lead.endpoint("c2") == "10.1.1.2"
    lead.until[0] = float("inf")


async def test_a_foreign_write_rebuilds_the_view(lead: Term) -> None:
    before = lead.view
    _foreign(lead, Put(keys.grant(NetworkId("n1.default"), "10.1.1.1"), FOREIGN))
    await _rebuilt(lead, before)
    assert await lead.endpoint("c1") == "10.1.1.2"


async def test_a_foreign_delete_rebuilds_the_view(lead: Term) -> None:
    await lead.endpoint("c1")
    before = lead.view
    _foreign(
        lead,
        Delete(keys.ENDPOINTS + "n1.default-c1"),
        Delete(keys.grant(NetworkId("n1.default"), "10.1.1.1")),
    )
    await _rebuilt(lead, before)
    assert await lead.endpoint("c2") == "10.1.1.1"


async def test_writes_of_others_elsewhere_do_not_matter(lead: Term) -> None:
    before = lead.view
    _foreign(lead, Put("/contiv.io/oper/h1/flows", b"x"), Put("/contiv.io/host/h1", b"x"))
    await lead.endpoint("c1")
    _foreign(lead, Delete("/contiv.io/host/h1"))
    await lead.endpoint("c2")
    assert lead.view is before


async def test_a_refused_change_fails_alone_with_what_waits_behind_it(lead: Term) -> None:
    lead.backend.faults.lost_answers.clear()
    async with lead.held() as tasks:
        refused = tasks.create_task(outcome(lead.endpoint("c1")))
        granted = tasks.create_task(outcome(lead.endpoint("c2")))
        await lead.backend.arrived.wait()
        behind = tasks.create_task(outcome(lead.endpoint("c3")))
        await asyncio.sleep(0)
        _foreign(lead, Put(keys.grant(NetworkId("n1.default"), "10.1.1.1"), FOREIGN))
    assert granted.result() == "10.1.1.2"
    assert isinstance(refused.result(), StoreUnavailable)
    assert "10.1.1.1 was changed by another writer" in str(refused.result())
    assert isinstance(behind.result(), StoreUnavailable)
    assert await lead.endpoint("c3") == "10.1.1.3"


@pytest.mark.parametrize(
    "faults", [Faults(), Faults(coalesce=True), Faults(silent_rewrites=True)], ids=str
)
async def test_our_own_writes_are_not_taken_for_foreign(faults: Faults) -> None:
    async with term(faults=faults) as lead:
        await lead.network("n1")
        before = lead.view
        for turn in range(3):
            async with asyncio.TaskGroup() as tasks:
                for number in range(40):
                    tasks.create_task(lead.endpoint(f"c{number}"))
            lead.backend.store.lose_continuity()
            for number in range(40):
                await lead.delete_endpoint(f"c{number}")
            await lead.network(f"m{turn}", f"10.{turn + 9}.0.0/24")
        await lead.committer.submit(lambda view: network.delete(view, "default:m0"))
        assert lead.view is before
        assert shown(lead.stored()) == shown(lead.view)


def said(revisions: dict[str, int]) -> AgentReport:
    return AgentReport(node=Node("192.0.2.1", 9002), host="h1", revisions=revisions)


async def test_revisions_are_those_that_agents_reach(lead: Term) -> None:
    feed = RecordFeed(lead.backend)
    marks, reached = lead.committer.revisions, dict[str, int]()
    async with background("feed", feed.run()):
        for change in (
            lead.endpoint("c1"),
            lead.network("n2", "10.2.0.0/24"),
            lead.delete_endpoint("c1"),
            lead.committer.submit(lambda view: network.delete(view, "default:n2")),
        ):
            await change
            assert unapplied_reason(Applicable(marks), [said(reached)])
            while unapplied_reason(Applicable(marks), [said(reached)]):
                events = await feed.take()
                reached |= {e.prefix: e.rev for e in events if isinstance(e, SyncedTo)}
    assert marks.keys() == {keys.MASTER_CONFIG, keys.NETWORKS, keys.ENDPOINTS}


async def test_revisions_include_foreign_writes_and_pass_to_the_next_leader(lead: Term) -> None:
    await lead.endpoint("c1")
    before, view = dict(lead.committer.revisions), lead.view
    found = lead.backend.store.get(keys.network(NetworkId("n1.default")))
    assert found
    _foreign(lead, Put(found.key, found.value))
    await _rebuilt(lead, view)
    now = lead.committer.revisions
    rewritten = lead.backend.store.get(found.key)
    assert rewritten
    assert now == before | {keys.NETWORKS: rewritten.rev}
    authority = WriteAuthority(fence=Fence("x", 0), writer="next", valid_until=lambda: 0.0)
    async with following(lead.backend) as standby:
        successor = await Committer.begin(lead.backend, authority, standby)
        assert successor.revisions == now


async def test_an_unreadable_value_ends_the_term(lead: Term) -> None:
    _foreign(lead, Put(keys.NETWORKS + "bad.default", b"{"))
    ended = await lead.ended
    assert isinstance(ended, Invalid)
    assert "bad.default" in str(ended)


async def test_a_store_that_is_away_is_not_waited_for_for_ever() -> None:
    async with checked_term(CommitTiming(rebuild=0.01)) as lead:
        lead.backend.faults.reachable.clear()
        assert isinstance(await outcome(lead.endpoint("c1")), StoreUnavailable)
        late = await outcome(lead.endpoint("c1"))
        assert str(late) == "the store is being read again, try again"
        before = lead.view
        lead.backend.faults.reachable.set()
        while lead.view is before:
            await outcome(lead.committer.flush())


async def test_a_store_that_is_away_is_waited_for(lead: Term) -> None:
    before = lead.view
    lead.backend.faults.reachable.clear()
    assert isinstance(await outcome(lead.endpoint("c1")), StoreUnavailable)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(lead.endpoint("c1"))
        await asyncio.sleep(0)
        lead.backend.faults.reachable.set()
    assert waiting.result() == "10.1.1.1"
    assert lead.view is not before


async def test_a_caller_that_gives_up_does_not_stop_its_change(lead: Term) -> None:
    async with lead.held() as tasks:
        gone = tasks.create_task(lead.endpoint("c1"))
        await lead.backend.arrived.wait()
        gone.cancel()
        stays = tasks.create_task(lead.endpoint("c2"))
        await asyncio.sleep(0)
    assert stays.result() == "10.1.1.2"
    assert set(lead.stored().endpoints) == {"n1.default-c1", "n1.default-c2"}


async def test_a_change_beyond_the_limits_fails(lead: Term) -> None:
    many = tuple(
        Write(f"{keys.GRANTS}n1.default/10.1.1.{n}", _grant(n), new=True) for n in range(1, 200)
    )
    with pytest.raises(TooLarge):
        await lead.committer.submit(lambda _: Plan(many, reply=None))
    assert await lead.endpoint("c1") == "10.1.1.1"


def _grant(seq: int) -> GrantRecord:
    return GrantRecord(owner=GrantOwner.VIP, owner_id="x", seq=seq)


async def test_a_plan_that_does_not_fit_the_view_leaves_no_trace(lead: Term) -> None:
    wrong = (
        Write(keys.grant(NetworkId("n1.default"), "10.1.1.1"), _grant(5), new=True),
        Write(keys.grant(NetworkId("n1.default"), "10.1.1.9"), None, new=False),
    )
    with pytest.raises(KeyError):
        await lead.committer.submit(lambda _: Plan(wrong, reply=None))
    assert await lead.endpoint("c1") == "10.1.1.1"


async def test_a_bug_in_a_decision_changes_nothing(lead: Term) -> None:
    def bug(_: View) -> Plan:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lead.committer.submit(bug)
    assert await lead.endpoint("c1") == "10.1.1.1"


async def test_two_leaders_never_give_one_address() -> None:
    """The second leads while the first does not know yet that it is deposed."""
    async with term() as old:
        await old.network("n1", "10.1.1.0/29")
        await old.endpoint("c1")
        _foreign(old, Delete(keys.LEADER_LOCK))
        async with term(old.backend.store) as new:
            given = await asyncio.gather(
                *(outcome(old.endpoint(f"o{number}")) for number in range(3)),
                *(outcome(new.endpoint(f"n{number}")) for number in range(6)),
            )
            assert [answer for answer in given if isinstance(answer, str)] == [
                f"10.1.1.{number}" for number in range(2, 7)
            ]
            assert sum(isinstance(answer, NotLeader) for answer in given) == 3
            assert sum(isinstance(answer, Exhausted) for answer in given) == 1


class _DeniedBackend(MemoryBackend):
    """A client that may not watch."""

    async def watch(
        self,
        prefix: str,
        *,
        every_revision: bool = False,  # noqa: ARG002 - denied in any case
        parts: Parts | None = None,  # noqa: ARG002 - denied in any case
    ) -> AsyncIterator[Snapshot | Delta]:
        yield Snapshot(0, {})
        raise StoreDenied(f"no permission for {prefix}")


async def test_a_watch_that_is_denied_ends_the_term() -> None:
    fence = Fence(keys.LEADER_LOCK, 1)
    authority = WriteAuthority(fence=fence, writer="w", valid_until=lambda: 1.0)
    backend = _DeniedBackend()
    async with following(backend) as standby:
        committer = await Committer.begin(backend, authority, standby)
        with pytest.raises(StoreDenied):
            await committer.run()
    with pytest.raises(NotLeader):
        await committer.flush()


async def test_a_closed_store_ends_the_term(lead: Term) -> None:
    await lead.backend.close()
    assert isinstance(await lead.ended, NotLeader)


async def test_a_group_that_is_deleted_while_endpoints_wait(lead: Term) -> None:
    posted = a_group("g1")
    await lead.committer.submit(lambda view: group.create(view, posted))
    async with lead.held() as tasks:
        deleted = tasks.create_task(
            outcome(lead.committer.submit(lambda view: group.delete(view, "default:g1")))
        )
        await lead.backend.arrived.wait()
        late = tasks.create_task(outcome(lead.endpoint("c1", service_name="g1")))
        await asyncio.sleep(0)
    assert deleted.result() == "default:g1"
    assert isinstance(late.result(), NotFound)


async def _profile_of_many(lead: Term, count: int) -> None:
    """Make a network profile that many groups name."""
    await lead.committer.submit(partial(netprofile.create, posted=PROFILE))
    for number in range(count):
        asked = a_group(f"g{number}", net_profile="p")
        await lead.committer.submit(partial(group.create, posted=asked))


def _marks(view: View) -> set[int]:
    return {record.dscp for record in view.groups.values()}


async def test_a_change_in_parts_is_answered_when_all_are_made(lead: Term) -> None:
    await _profile_of_many(lead, 2 * netprofile.CHUNK + 1)
    lead.backend.commits.clear()
    changed = PROFILE.model_copy(update={"dscp": 9})
    await lead.committer.submit(partial(netprofile.update, posted=changed))
    assert lead.backend.commits == [1, 1, 1]
    assert _marks(lead.stored()) == {9}


async def test_what_is_left_of_a_change_in_parts_is_found_later() -> None:
    faults = Faults()
    async with term(faults=faults) as lead:
        await lead.network("n1")
        await _profile_of_many(lead, netprofile.CHUNK + 1)
        changed = PROFILE.model_copy(update={"dscp": 9})
        async with lead.held() as tasks:
            update = partial(netprofile.update, posted=changed)
            asked = tasks.create_task(outcome(lead.committer.submit(update)))
            await lead.backend.arrived.wait()
            faults.lost_answers.append(LostAnswer.APPLIED)
        assert isinstance(asked.result(), StoreUnavailable)
        assert _marks(lead.stored()) == {0, 9}
        assert await lead.committer.submit(netprofile.sync_groups) == 1
        assert await lead.committer.submit(netprofile.sync_groups) == 0
        assert _marks(lead.stored()) == {9}
