"""The member that a follower adds to `/info`."""

import pytest

from netmaster.api.http.follower_info import is_info, with_follower

LEADERS = (
    b'{"current-state":"leader","leader-ip":"10.77.0.1:9999","local-ip":"10.77.0.1",'
    b'"netmaster-nodes":["10.77.0.1"],"netplugin-nodes":[]}'
)


def test_the_leader_s_members_stay_and_keys_are_sorted() -> None:
    """The finding of docs/notes/trust.md §18."""
    assert with_follower(LEADERS, "10.77.0.2:9999") == LEADERS.replace(
        b'"leader-ip"', b'"forwarded-by":"10.77.0.2:9999","leader-ip"'
    )


def test_what_fails_at_the_follower_is_named() -> None:
    told = with_follower(LEADERS, "10.77.0.2:9999", ["lock not taken: no answer"])
    assert b'"forwarded-by-faults":["lock not taken: no answer"]' in told


@pytest.mark.parametrize("body", [b"", b"internal error\n", b"[1]", b"\xff"])
def test_what_is_no_object_stays(body: bytes) -> None:
    assert with_follower(body, "10.77.0.2:9999") == body


@pytest.mark.parametrize(
    ("method", "path", "asks"),
    [("GET", "/info", True), ("POST", "/info", False), ("GET", "/info/", False)],
)
def test_only_info_is_changed(method: str, path: str, asks: bool) -> None:
    assert is_info(method, path) is asks
