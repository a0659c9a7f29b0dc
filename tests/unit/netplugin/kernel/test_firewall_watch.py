"""Which of the kernel's messages about nftables tell that rules of the agent may be gone. Pure."""

import struct

import pytest

from netplugin.kernel.firewall_watch import changes, concerns

TABLE, NEW_CHAIN, CHAIN, RULE, NEW_RULE = 2, 3, 5, 8, 6
NAME_AT = {NEW_CHAIN: 3, CHAIN: 3, RULE: 2, NEW_RULE: 2, TABLE: 1}
HOOK = struct.pack("=HHI", 8, 4, 0)


def message(
    kind: int, name: str = "", port: int = 7, subsystem: int = 10, more: bytes = b""
) -> bytes:
    text = name.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(text), NAME_AT[kind]) + text
    attribute += b"\0" * (-len(attribute) % 4)
    other = struct.pack("=HHI", 8, 9, 0)  # one that is passed over
    body = struct.pack("=BBH", 2, 0, 0) + other + attribute + more
    return struct.pack("=IHHII", 16 + len(body), subsystem << 8 | kind, 0, 0, port) + body


def test_changes_are_read_with_who_asked_for_them() -> None:
    data = message(RULE, "FORWARD") + message(NEW_RULE, "INPUT") + message(CHAIN, "CONTIV-X", 9)
    assert [*changes(data + message(TABLE, "nat"))] == [
        *((7, "FORWARD"), (7, "INPUT")),
        *((9, "CONTIV-X"), (7, "")),
    ]
    assert [*changes(message(RULE, "FORWARD", subsystem=1))] == []


def test_chains_that_the_kernel_asks_are_read_when_they_are_new() -> None:
    assert [*changes(message(NEW_CHAIN, "filter_FORWARD", more=HOOK))] == [(7, "")]
    assert [*changes(message(NEW_CHAIN, "KUBE-SVC-ABC"))] == []


@pytest.mark.parametrize("data", [b"", b"\0" * 16, b"\xff" * 40])
def test_what_is_no_message_is_passed_over(data: bytes) -> None:
    assert not concerns(changes(data), ())


@pytest.mark.parametrize(
    ("chain", "concerned"),
    [("FORWARD", True), ("CONTIVPORT-DNAT", True), ("", True), ("KUBE-SERVICES", False)],
)
def test_chains_of_others_do_not_concern_the_agent(chain: str, concerned: bool) -> None:
    assert concerns([(7, chain)], [8]) is concerned
    assert not concerns([(7, chain)], [7, 8]), "its own program"
