"""What "applied" means."""

import dataclasses
from typing import Any

import pytest

from core import keys
from core.ids import HostLabel, NetworkId
from core.version import VERSION
from netmaster.host_progress import (
    NO_AGENT,
    NOT_REPORTED,
    OTHER_HISTORY,
    OVERDUE,
    Applicable,
    HostState,
    ObservedHost,
    PrefixRevisions,
    policy_revisions,
    shown_host,
    unapplied_reason,
)
from ofnet.rpc.control import AgentReport, Node
from state.records import HostRecord

VXLAN, VLAN = Node("192.0.2.1", 9002), Node("192.0.2.1", 9003)
CHANGED = {keys.NETWORKS: 7, keys.ENDPOINTS: 9}
BOTH = {keys.NETWORKS: 7, keys.ENDPOINTS: 9}


def says(node: Node, revisions: dict[str, int], *errors: str) -> AgentReport:
    return AgentReport(node=node, host="h1", revisions=revisions, errors=errors)


def test_revisions_are_the_highest_of_what_agents_watch() -> None:
    tracked = PrefixRevisions()
    for key, rev in (
        (keys.network(NetworkId("a.b")), 7),
        (keys.network(NetworkId("c.b")), 5),
        (keys.obj("network", "b:a"), 99),
        (keys.COMMITS + "x", 99),
        (keys.GLOBAL_CONFIG, 2),
    ):
        tracked.update(key, rev)
    assert tracked.revisions == {keys.NETWORKS: 7, keys.MASTER_CONFIG: 2}


def test_a_new_pod_waits_for_the_revisions_of_policies() -> None:
    revisions = {keys.RULES: 3, keys.ENDPOINTS: 9, keys.MASTER_CONFIG: 2, keys.HOSTS: 4}
    assert policy_revisions(revisions) == {keys.RULES: 3, keys.ENDPOINTS: 9}


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([], NOT_REPORTED),
        ([None], NOT_REPORTED),
        ([AgentReport(node=VXLAN)], NOT_REPORTED),
        ([says(VXLAN, BOTH), None], NOT_REPORTED),
        ([says(VXLAN, BOTH)], ""),
        ([says(VXLAN, BOTH), says(VLAN, {keys.NETWORKS: 8, keys.ENDPOINTS: 12})], ""),
        ([says(VXLAN, {keys.NETWORKS: 100})], "state/eps/ at 0 of 9"),
        ([says(VXLAN, BOTH), says(VLAN, BOTH | {keys.NETWORKS: 6})], "state/nets/ at 6 of 7"),
        ([says(VXLAN, {})], "state/nets/ at 0 of 7, state/eps/ at 0 of 9"),
        ([says(VXLAN, BOTH | {"/other/": 0}, "table full")], ""),
    ],
)
def test_a_host_is_behind_until_all_its_reports_reach_every_revision(
    reports: list[AgentReport | None], why: str
) -> None:
    assert unapplied_reason(Applicable(CHANGED), reports) == why


def test_without_changes_every_host_that_reported_has_applied_all() -> None:
    assert unapplied_reason(Applicable({}), [says(VXLAN, {})]) == ""


@pytest.mark.parametrize(
    ("history", "why"),
    [("t2", ""), ("t1", OTHER_HISTORY), ("", OTHER_HISTORY), (None, "")],
)
def test_revisions_are_compared_in_one_history(history: str | None, why: str) -> None:
    """An agent of a release without histories names none."""
    report = dataclasses.replace(says(VXLAN, BOTH), history=history)
    assert unapplied_reason(Applicable(CHANGED, "t2"), [report]) == why


def test_a_host_as_it_is_shown() -> None:
    record = HostRecord(
        label=HostLabel("h1"),
        control_ip="192.0.2.1",
        vtep_ip="198.51.100.1",
        vxlan_port=4789,
        uplink_macs=("02:00:00:00:00:01",),
        version=VERSION,
    )
    shown: dict[str, Any] = {
        "label": "h1",
        "controlIP": "192.0.2.1",
        "vtepIP": "198.51.100.1",
        "uplinkMACs": ["02:00:00:00:00:01"],
        "version": VERSION,
    }
    reports = {VXLAN: says(VXLAN, BOTH, "a", "b"), VLAN: says(VLAN, BOTH, "b")}
    there = ObservedHost(record=record, registered=True, reports=reports)
    assert shown_host(
        there, Applicable(CHANGED), HostState(endpoints=4, drained=True, missing_since=3.0)
    ) == shown | {
        "registered": True,
        "ends": ["192.0.2.1:9002", "192.0.2.1:9003"],
        "applied": True,
        "behind": "",
        "errors": ["a", "b"],
        "endpoints": 4,
        "drained": True,
    }
    gone = ObservedHost(record=record, registered=False, reports={})
    assert shown_host(gone, Applicable(CHANGED), HostState(missing_since=3.0)) == shown | {
        "registered": False,
        "ends": [],
        "applied": False,
        "behind": NO_AGENT,
        "errors": [],
        "endpoints": 0,
        "drained": False,
        "missingSince": 3.0,
    }


@pytest.mark.parametrize(
    ("version", "registered", "skewed"),
    [("0.0.9", True, True), (VERSION, True, False), ("0.0.9", False, False), ("", True, False)],
)
def test_a_host_of_another_release_is_shown_beside_that_of_its_master(
    version: str, registered: bool, skewed: bool
) -> None:
    record = HostRecord(
        label=HostLabel("h1"), control_ip="", vtep_ip="", vxlan_port=0, version=version
    )
    host = ObservedHost(record=record, registered=registered, reports={})
    shown = shown_host(host, Applicable(CHANGED), HostState())
    assert shown.get("masterVersion") == (VERSION if skewed else None)


def test_agents_at_two_addresses_with_one_label_are_an_error() -> None:
    record = HostRecord(label=HostLabel("h1"), control_ip="", vtep_ip="", vxlan_port=4789)
    other = Node("192.0.2.9", 9002)
    host = ObservedHost(
        record=record, registered=True, reports={VXLAN: says(VXLAN, BOTH), other: None}
    )
    assert shown_host(host, Applicable(CHANGED), HostState())["errors"] == [
        "agents at 192.0.2.1 and 192.0.2.9 have this label: give each host its own --host"
    ]


@pytest.mark.parametrize(("repeat", "now", "told"), [(3.0, 18.9, 0), (3.0, 19.1, 1), (None, 99, 0)])
def test_reports_that_do_not_come_any_more_are_an_error(
    repeat: float | None, now: float, told: int
) -> None:
    host = ObservedHost(
        record=HostRecord(label=HostLabel("h1"), control_ip="", vtep_ip="", vxlan_port=0),
        registered=True,
        reports={
            node: dataclasses.replace(says(node, BOTH), repeat=repeat, heard=10.0)
            for node in (VXLAN, VLAN)
        },
    )
    shown = shown_host(host, Applicable(CHANGED), HostState(), now)
    assert shown["errors"] == [OVERDUE] * told
