"""`objdb.consul.operations`: the operations of a change."""

from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from objdb.api import Absent, Change, Delete, Put, Unchanged, split
from objdb.consul.operations import LIMITS, Operation, flat, ordered

A, B, C = "/a", "/b", "/c"


def verbs(*changes: Change) -> list[tuple[str, str]]:
    return [(op.verb, op.key) for op in ordered(enumerate(changes))]


def test_a_key_that_must_be_absent_is_checked_and_put_at_once() -> None:
    change = Change((Absent(A),), (Put(A, b"v"),))
    assert ordered([(3, change)]) == [Operation("cas", A, b"v", 0, check=Absent(A), change=3)]


def test_any_other_put_ends_what_lease_the_key_is_under() -> None:
    assert verbs(Change((), (Put(A, b""),))) == [("delete", A), ("set", A)]
    changed = Change((Unchanged(A, 7),), (Put(A, b""),))
    assert verbs(changed) == [("check-index", A), ("delete", A), ("set", A)]


def test_checks_come_before_what_any_change_writes() -> None:
    changes = [
        Change((), (Put(A, b""),)),
        Change((Absent(A), Unchanged(C, 1)), (Delete(B),)),
    ]
    assert verbs(*changes) == [
        ("check-not-exists", A),
        ("check-index", C),
        ("delete", A),
        ("set", A),
        ("delete", B),
    ]


def test_it_reads_as_the_api_has_it() -> None:
    put = Operation("cas", "/contiv.io/x", b"\xff", 0)
    value = b64encode(b"\xff").decode()
    assert put.json() == {
        "KV": {"Verb": "cas", "Key": "contiv.io/x", "Value": value, "Index": 0},
    }
    fence = Operation("check-session", A, session="s")
    assert fence.json() == {"KV": {"Verb": "check-session", "Key": "a", "Session": "s"}}
    assert Operation("set", A, b"").json() == {"KV": {"Verb": "set", "Key": "a", "Value": ""}}


@given(st.lists(st.sampled_from([(), (Absent(A),), (Unchanged(A, 1), Absent(B))]), max_size=80))
def test_a_group_never_exceeds_what_consul_takes(checks: list[tuple[Absent | Unchanged]]) -> None:
    changes = [Change(check, (Put(f"{A}{n}", b""),)) for n, check in enumerate(checks)]
    for group in split(changes, LIMITS):
        operations = ordered(enumerate(group))
        assert len(operations) == sum(flat(change)[0] for change in group)
        assert len(operations) + 2 <= 64  # fence and marker
