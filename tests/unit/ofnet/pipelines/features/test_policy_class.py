"""Groups with the same policies: their flows, and that no packet meets another class's rules."""

import pytest

from core.ids import GroupKey
from ofnet.flows import Flow
from ofnet.pipelines.features import contiv_policy, policy_class
from ofnet.tables import TABLES, TableId
from ofnet.world import Bridge, FwdMode, PolicyClass, Rule, World
from tests.unit.ofnet.pipelines.scene import ANN, BOB, EVE, FAR, TUNNEL, arrival, ip, world
from tests.unit.ofnet.walk import send

ANY = World(fwd_mode=FwdMode.ROUTING)
SEVEN, EIGHT = PolicyClass(7, 7), PolicyClass(8, 7)


def texts(flows: list[Flow]) -> list[str]:
    return [str(flow) for flow in flows]


def shared(*rules: Rule, classes: tuple[PolicyClass, ...] = (SEVEN, EIGHT)) -> World:
    return world(
        FwdMode.ROUTING,
        rules=rules,
        classes={GroupKey(f"g{one.group_id}:t"): one for one in classes},
    )


def test_a_group_gets_its_class_in_the_table_of_the_rules() -> None:
    assert texts(list(policy_class.flows(EIGHT, ANY))) == [
        f"table=5, priority={priority},{register}=0,metadata={group} "
        f"actions=set_field:0x7->{register},resubmit(,5)"
        for priority, register, group in (
            (121, "reg2", "0x80000/0x7fff0000"),
            (120, "reg3", "0x10/0xfffe"),
        )
    ]


def test_a_rule_matches_the_class_on_its_policys_side_and_a_group_on_the_other() -> None:
    rule = Rule(id="1", priority=1, allow=False, dst_class=7, src_group=9)
    assert [str(flow.match) for flow in contiv_policy.flows(rule, ANY)] == [
        "ip,reg3=0x7,metadata=0x90000/0x7fff0000",
        "ipv6,reg3=0x7,metadata=0x90000/0x7fff0000",
    ]
    anybody = Rule(id="1", priority=1, allow=False, src_class=7, protocol=6)
    assert [str(flow.match) for flow in contiv_policy.flows(anybody, ANY)] == [
        "tcp,reg2=0x7",
        "tcp6,reg2=0x7",
    ]


def test_flows_in_the_table_of_the_log_match_the_class() -> None:
    rule = Rule(id="1", priority=1, allow=True, dst_class=7, log=True)
    assert all("reg3" in flow.match.names for flow in contiv_policy.flows(rule, ANY))


@pytest.mark.parametrize("packet", [ip(ANN, BOB), ip(ANN, FAR), ip(BOB, EVE)])
def test_a_rule_of_a_class_is_about_all_its_groups_and_no_others(packet: dict[str, object]) -> None:
    """Group 7 is Ann's, 8 is Bob's and that of the pod on the other host; Eve is in neither."""
    sent = Rule(id="1", priority=1, allow=False, src_class=7)
    assert send(shared(), Bridge.VXLAN, packet)
    assert not send(shared(sent), Bridge.VXLAN, packet)
    assert send(shared(sent), Bridge.VXLAN, ip(EVE, ANN))


def test_what_another_host_sends_is_of_its_class_too() -> None:
    sent = Rule(id="1", priority=1, allow=False, src_class=7)
    arrived = arrival(TUNNEL, EVE, ipv4_src=FAR.ip, tunnel_id=10001)
    assert send(shared(), Bridge.VXLAN, arrived)
    assert not send(shared(sent), Bridge.VXLAN, arrived)


def test_a_rule_means_nothing_to_a_group_that_left_its_class() -> None:
    received = Rule(id="1", priority=1, allow=False, dst_class=7)
    assert not send(shared(received), Bridge.VXLAN, ip(EVE, BOB))
    assert send(shared(received, classes=(SEVEN,)), Bridge.VXLAN, ip(EVE, BOB))


def test_no_packet_comes_back_to_the_rules_from_another_table() -> None:
    """Else it might come with the registers of a class from before.

    Table 18 sends some back, at once and with the groups and registers that they came with.
    """
    reporting = TABLES[TableId.POLICY_LOG]
    assert reporting.actions == {"report", "reg4", "lookup"}
    assert not reporting.writes
    assert TableId.POLICY in reporting.resumes
    beyond = {*TABLES[TableId.POLICY].next, *reporting.resumes} - {reporting.id, TableId.POLICY}
    while more := {way for table in beyond for way in _ways(table)} - beyond:
        beyond |= more
    assert not beyond & {TableId.POLICY, TableId.DST_GRP, TableId.VLAN, TableId.INGRESS_GROUP}


@pytest.mark.parametrize("register", ["reg2", "reg3"])
def test_the_registers_are_the_rules_own(register: str) -> None:
    assert {t.id for t in TABLES.values() if register in t.actions} == {TableId.POLICY}
    matching = {t.id for t in TABLES.values() if register in t.matches}
    assert matching == {TableId.POLICY, TableId.POLICY_LOG}


def _ways(table: TableId) -> frozenset[TableId]:
    return TABLES[table].next | TABLES[table].resumes
