"""What stands in the place of a flow that the switch refuses, and when it is tried again."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ofnet.changes import ObjectKind
from ofnet.diff import FlowStamp
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, TO_CONTROLLER, Instructions, Output, goto
from ofnet.openflow.match import Match
from ofnet.refusals import LONGEST, Refusals
from ofnet.tables import TableId

IPV4 = Match(eth_type=oxm.ETH_IPV4)
ALLOWED = Flow(ObjectKind.RULE, TableId.POLICY, 9, IPV4, goto(TableId.SRV_PROXY_SNAT))
DENIED = Flow(ObjectKind.RULE, TableId.POLICY, 10, IPV4, DROP)
OUT = Flow(ObjectKind.LOCAL, TableId.IP, 9, IPV4, Instructions((Output(7),)))
OUT_DROPS = Flow(ObjectKind.LOCAL, TableId.IP, 9, IPV4, DROP)
ANSWER = Flow(ObjectKind.PIPELINE, TableId.NEIGHBOURS, 9, IPV4, TO_CONTROLLER)
ALL = {flow.key: flow for flow in (ALLOWED, DENIED, OUT, ANSWER)}
WHY = "bad argument"


def refusing(*flows: Flow) -> Refusals:
    refusals = Refusals()
    assert refusals.record([(flow, WHY) for flow in flows]) == [(flow, WHY) for flow in flows]
    return refusals


def test_packets_of_a_refused_flow_are_dropped() -> None:
    refusals = refusing(OUT)
    assert refusals.possible(ALL) == [ALLOWED, DENIED, OUT_DROPS, ANSWER]
    assert not refusals.gap, "nothing passes that would not pass with the flow"
    assert refusals.record([(OUT, WHY)]) == [], "known already"


def test_a_refused_drop_leaves_a_gap() -> None:
    refusals = refusing(DENIED)
    assert refusals.possible(ALL) == [ALLOWED, OUT, ANSWER]
    assert refusals.gap


def test_a_match_that_is_refused_leaves_a_gap() -> None:
    refusals = refusing(OUT)
    assert refusals.record([(OUT_DROPS, WHY)]) == [], "the flow is named, not what stood in for it"
    assert refusals.possible(ALL) == [ALLOWED, DENIED, ANSWER]
    assert refusals.gap
    assert list(refusals.flows) == [OUT.key]


def test_an_answer_is_just_missing() -> None:
    refusals = refusing(ANSWER)
    assert refusals.possible(ALL) == [ALLOWED, DENIED, OUT]
    assert not refusals.gap


def test_what_is_no_longer_wanted_is_forgotten_with_what_stood_in_for_it() -> None:
    refusals = refusing(OUT, DENIED)
    stand_in = FlowStamp(OUT_DROPS.table, OUT_DROPS.cookie)
    left = {key: flow for key, flow in ALL.items() if flow != OUT}
    assert refusals.outdated(ALL, []) == []
    assert refusals.outdated(left, []) == [stand_in]
    assert list(refusals.flows) == [DENIED.key]
    assert refusals.outdated(ALL, [DENIED.key]) == [], "it is added anew: another try"
    assert not refusals.flows
    assert not refusals.gap


def test_a_changed_flow_is_tried_though_the_old_one_was_refused() -> None:
    changed = Flow(ObjectKind.LOCAL, TableId.IP, 9, IPV4, Instructions((Output(8),)))
    refusals = refusing(OUT)
    assert changed in refusals.possible({**ALL, OUT.key: changed})


def test_it_takes_longer_from_try_to_try() -> None:
    refusals = refusing(OUT)
    tried = [audit for audit in range(1, 300) if refusals.due()]
    assert tried[:6] == [1, 3, 7, 15, 31, 63]
    assert {later - earlier for earlier, later in pairwise(tried[5:])} == {LONGEST}
    refusals.accept([OUT])
    assert refusals.possible(ALL) == list(ALL.values())
    refusals.record([(OUT, WHY)])
    assert refusals.due(), "a new one is tried at the next audit"


@given(st.lists(st.sampled_from([ALLOWED, DENIED, OUT, ANSWER])))
def test_only_drops_are_put_in_and_a_missing_drop_is_a_gap(refused: list[Flow]) -> None:
    refusals = Refusals()
    for flow in refused:
        refusals.record([(flow, WHY)])
    left = refusals.possible(ALL)
    assert all(
        flow in ALL.values() or (isinstance(flow, Flow) and flow.instructions == DROP)
        for flow in left
    )
    answering = {ANSWER.key}
    missing = ALL.keys() - {flow.key for flow in left} - answering
    assert refusals.gap == bool(missing)
