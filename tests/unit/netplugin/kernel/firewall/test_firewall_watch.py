"""Which of the kernel's messages about nftables tell that rules of the agent may be gone. Pure."""

import struct

import pytest

from netplugin.kernel.firewall.firewall_watch import (
    LOOK,
    SELDOM,
    FirewallChange,
    changes,
    concerns,
    filters,
    until_next,
    without_counters,
)

TABLE, NEW_CHAIN, CHAIN, RULE, NEW_RULE = 2, 3, 5, 8, 6
NAME_AT = {NEW_CHAIN: 3, CHAIN: 3, RULE: 2, NEW_RULE: 2, TABLE: 1}
HOOK = struct.pack("=HHI", 8, 4, 0)


def named(kind: int, name: str) -> bytes:
    text = name.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(text), kind) + text
    return attribute + b"\0" * (-len(attribute) % 4)


def message(
    kind: int, name: str = "", port: int = 7, subsystem: int = 10, more: bytes = b""
) -> bytes:
    attribute = b"" if kind == TABLE else named(1, "nat")
    attribute += named(NAME_AT[kind], name)
    other = struct.pack("=HHI", 8, 9, 0)  # one that is passed over
    body = struct.pack("=BBH", 2, 0, 0) + other + attribute + more
    return struct.pack("=IHHII", 16 + len(body), subsystem << 8 | kind, 0, 0, port) + body


def test_changes_are_read_with_who_asked_for_them() -> None:
    data = message(RULE, "FORWARD") + message(NEW_RULE, "INPUT") + message(CHAIN, "CONTIV-X", 9)
    assert [*changes(data + message(TABLE, "nat"))] == [
        *((7, "FORWARD", "nat"), (7, "INPUT", "nat")),
        *((9, "CONTIV-X", "nat"), (7, "", "nat")),
    ]
    assert [*changes(message(RULE, "FORWARD", subsystem=1))] == []


def test_chains_that_the_kernel_asks_are_read_when_they_are_new() -> None:
    assert [*changes(message(NEW_CHAIN, "filter_FORWARD", more=HOOK))] == [(7, "", "nat")]
    assert [*changes(message(NEW_CHAIN, "KUBE-SVC-ABC"))] == []


@pytest.mark.parametrize("data", [b"", b"\0" * 16, b"\xff" * 40])
def test_what_is_no_message_is_passed_over(data: bytes) -> None:
    assert not concerns(changes(data), ())


@pytest.mark.parametrize(
    ("chain", "concerned"),
    [("FORWARD", True), ("CONTIVPORT-DNAT", True), ("", True), ("KUBE-SERVICES", False)],
)
def test_chains_of_others_do_not_concern_the_agent(chain: str, concerned: bool) -> None:
    assert concerns([FirewallChange(7, chain)], [8]) is concerned
    assert not concerns([FirewallChange(7, chain)], [7, 8]), "its own program"


@pytest.mark.parametrize(("table", "counts"), [("mangle", True), ("fire", True), ("nat", False)])
def test_any_rule_of_others_counts_where_it_may_drop(table: str, counts: bool) -> None:
    assert filters([FirewallChange(7, "KUBE-X", table)], [8]) is counts
    assert not filters([FirewallChange(7, "KUBE-X", table)], [7]), "its own program"


@pytest.mark.parametrize("version", [4, 6])
def test_entries_differ_by_their_rules_alone(version: int) -> None:
    def table(count: int, target: int) -> bytes:
        length_at, counters_at = {4: (90, 96), 6: (142, 152)}[version]
        entry = bytearray(counters_at + 16 + 8)
        struct.pack_into("=H", entry, length_at, len(entry))
        struct.pack_into("=QQ", entry, counters_at, count, count)
        entry[-1] = target
        return bytes(entry) * 2

    assert without_counters(table(1, 5), version) == without_counters(table(9, 5), version)
    assert without_counters(table(1, 5), version) != without_counters(table(1, 6), version)
    without_counters(b"\0" * 300, version)
    without_counters(b"\xff" * 300, version)


@pytest.mark.parametrize(
    ("took", "pause"), [(0.0, LOOK), (0.004, LOOK), (0.008, 0.8), (0.03, 3.0), (1.0, SELDOM)]
)
def test_many_rules_are_read_less_often(took: float, pause: float) -> None:
    assert until_next(took) == pytest.approx(pause)
