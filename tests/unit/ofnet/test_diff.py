"""The difference between desired and reported flows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofnet.changes import ObjectKind
from ofnet.diff import FlowStamp, difference
from ofnet.flows import Flow, PackedFlow
from ofnet.openflow.actions import DROP
from ofnet.openflow.match import Match
from ofnet.tables import TableId

FLOWS = [Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=n), DROP) for n in range(1, 6)]
STAMPS = [FlowStamp(flow.table, flow.cookie) for flow in FLOWS]
FOREIGN = [FlowStamp(0, 0x1F), FlowStamp(1, 0x1F), FlowStamp(7, STAMPS[0].cookie)]


def apply(reported: list[FlowStamp], wanted: list[Flow]) -> list[FlowStamp]:
    """Do to a table what a switch does: add (replacing nothing here), then delete by stamp."""
    diff = difference(wanted, reported)
    after = reported + [FlowStamp(flow.table, flow.cookie) for flow in diff.add]
    return [stamp for stamp in after if stamp not in diff.delete]


@given(
    st.lists(st.sampled_from(STAMPS + FOREIGN)),
    st.lists(st.sampled_from(FLOWS), unique_by=lambda flow: flow.cookie),
)
def test_two_comparisons_bring_any_switch_to_the_desired_state(
    reported: list[FlowStamp], wanted: list[Flow]
) -> None:
    after = apply(apply(reported, wanted), wanted)
    assert sorted(after) == sorted(FlowStamp(flow.table, flow.cookie) for flow in wanted)
    assert not difference(wanted, after)


@given(st.lists(st.integers(0, 2), max_size=6), st.integers(0, 3))
def test_flows_with_one_cookie_are_all_there_in_the_end(present: list[int], foreign: int) -> None:
    """Three of one table: somebody may have chosen their matches so."""
    some = [PackedFlow(flow.key, FLOWS[0].cookie, flow.packed[2]) for flow in FLOWS[:3]]
    stamp = STAMPS[0]
    table, by_hand = {some[one].key for one in present}, foreign
    diff = difference(some, [stamp] * (len(table) + by_hand))
    for _ in range(3):
        table |= {flow.key for flow in diff.add}
        if stamp in diff.delete:
            table, by_hand = set(), 0
        diff = difference(some, [stamp] * (len(table) + by_hand))
    assert not diff
    assert len(table) + by_hand == len(some)


@pytest.mark.parametrize("kind", [ObjectKind.ROUTE, ObjectKind.SERVICE])
def test_a_kind_can_be_excluded_from_deletion(kind: ObjectKind) -> None:
    route = Flow(kind, TableId.IP, 101, Match(in_port=9), DROP)
    spared = FlowStamp(route.table, route.cookie)
    diff = difference(FLOWS[:1], [STAMPS[1], spared, FOREIGN[0]])
    restricted = diff.sparing({kind})
    assert restricted.add == (FLOWS[0],)
    assert set(restricted.delete) == {STAMPS[1], FOREIGN[0]}


def test_equal_states_differ_in_nothing() -> None:
    assert not difference(FLOWS, STAMPS)


def test_additions_and_deletions() -> None:
    diff = difference(FLOWS[:2], [STAMPS[1], *FOREIGN])
    assert diff.add == (FLOWS[0],)
    assert set(diff.delete) == set(FOREIGN)
