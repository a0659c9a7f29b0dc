"""Flows: nothing beyond the tables' declarations can be built; cookies stand for content."""

import pytest
from hypothesis import given

from ofnet.changes import ObjectKind
from ofnet.channel.wire import flow_add
from ofnet.diff import FlowStamp
from ofnet.flows import COOKIE_MAGIC, Flow, UndeclaredFlow
from ofnet.openflow.actions import (
    DROP,
    Action,
    Conntrack,
    Instructions,
    Load,
    Output,
    SetField,
    goto,
)
from ofnet.openflow.fields import DESTINATION_GROUP, REASSEMBLED, VRF, Field
from ofnet.openflow.match import Match
from ofnet.tables import Table, TableId
from tests.unit.ofnet.strategies import flows

FLOW = Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=3), goto(TableId.SRV_PROXY_DNAT))


@pytest.mark.parametrize(
    ("table", "match", "instructions"),
    [
        (TableId.POLICY, Match(in_port=1), DROP),
        (TableId.POLICY, Match(), Instructions((Output(1),))),
        (TableId.VLAN, Match(), Instructions((SetField("eth_dst", "02:02:00:00:00:01"),))),
        (TableId.VLAN, Match(), Instructions(metadata=DESTINATION_GROUP.put(1))),
        (TableId.IP, Match(), Instructions(metadata=VRF.put(1))),
        (TableId.VLAN, Match(), goto(TableId.IP)),
        (TableId.IP, Match(), goto(TableId.VLAN)),
    ],
)
def test_what_a_table_does_not_declare_cannot_be_built(
    table: TableId, match: Match, instructions: Instructions
) -> None:
    with pytest.raises(UndeclaredFlow, match=f"table {table:d} does not"):
        Flow(ObjectKind.LOCAL, table, 1, match, instructions)


def test_a_packet_resumes_after_tracking_in_a_declared_table_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracking = Table(
        id=TableId.POLICY, actions=frozenset({"ct"}), resumes=frozenset({TableId.DST_GRP})
    )
    monkeypatch.setattr("ofnet.flows.TABLES", {TableId.POLICY: tracking})
    declared = Instructions((Conntrack(table=TableId.DST_GRP, zone=1),))
    Flow(ObjectKind.PIPELINE, TableId.POLICY, 1, Match(), declared)
    other = Instructions((Conntrack(table=TableId.IP, zone=1),))
    with pytest.raises(UndeclaredFlow, match=r"table 5 does not ct\(table=7"):
        Flow(ObjectKind.PIPELINE, TableId.POLICY, 1, Match(), other)


def test_metadata_is_loaded_only_where_it_may_be_written() -> None:
    mark = Conntrack(table=TableId.SRV_PROXY_SNAT, zone=1)
    Flow(ObjectKind.PIPELINE, TableId.SRV_PROXY_SNAT, 1, Match(), loaded(REASSEMBLED, mark))
    with pytest.raises(UndeclaredFlow, match="table 6 does not load"):
        Flow(ObjectKind.PIPELINE, TableId.SRV_PROXY_SNAT, 1, Match(), loaded(VRF, mark))


def loaded(field: Field, *more: Action) -> Instructions:
    return Instructions((Load(field, 1), *more))


@pytest.mark.parametrize(
    "other",
    [
        Flow(ObjectKind.REMOTE, TableId.VLAN, 10, Match(in_port=3), goto(TableId.SRV_PROXY_DNAT)),
        Flow(ObjectKind.LOCAL, TableId.VLAN, 11, Match(in_port=3), goto(TableId.SRV_PROXY_DNAT)),
        Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=4), goto(TableId.SRV_PROXY_DNAT)),
        Flow(ObjectKind.LOCAL, TableId.VLAN, 10, Match(in_port=3), DROP),
        Flow(ObjectKind.LOCAL, TableId.IP, 10, Match(in_port=3), DROP),
    ],
)
def test_another_content_has_another_cookie(other: Flow) -> None:
    assert other.cookie != FLOW.cookie
    assert other != FLOW


def test_the_cookie_has_magic_and_owner() -> None:
    assert FLOW.cookie >> 56 == COOKIE_MAGIC
    assert FLOW.cookie >> 48 & 0xFF == ObjectKind.LOCAL


def test_the_cookie_of_a_content_never_changes() -> None:
    """A restart must find its own flows: this number is part of the contract between versions."""
    assert FLOW.cookie == 0xC005_7C36_4E15_D864


@given(flows(), flows())
def test_same_cookie_means_same_flow(one: Flow, other: Flow) -> None:
    assert (one == other) == (one.cookie == other.cookie)


def test_text_leaves_out_table_0_as_open_vswitch_does() -> None:
    first = Flow(ObjectKind.PIPELINE, TableId.INPUT, 1, Match(), goto(TableId.VLAN))
    assert str(first) == "priority=1 actions=goto_table:1"
    assert str(FLOW) == "table=1, priority=10,in_port=3 actions=goto_table:3"


@given(flows())
def test_a_packed_flow_is_the_same_to_a_switch(flow: Flow) -> None:
    packed = flow.packed
    assert flow_add(packed, 7) == flow_add(flow, 7)
    assert FlowStamp(packed.table, packed.cookie) == FlowStamp(flow.table, flow.cookie)
    assert (packed.key, packed.priority, packed.owner) == (flow.key, flow.priority, flow.owner)
