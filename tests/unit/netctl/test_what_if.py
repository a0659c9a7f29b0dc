"""What `--what-if` prints, and that nothing is changed."""

from typing import Any

from netctl.what_if import lines

WRITES = [{"key": "/contiv.io/obj/x", "action": "put"}]
SHIFT = {
    "tenant": "blue",
    "source": "",
    "destination": "web",
    "traffic": "tcp/80",
    "becomes": "denied",
    "by": ["blue:p1:1"],
    "before": [],
    "sources": 3,
    "destinations": 2,
}


def effects(*changes: Any, complete: bool = True) -> dict[str, Any]:
    reach = {"changes": list(changes), "complete": complete}
    return {"effects": {"writes": WRITES, "complete": complete, "reach": reach}}


def test_who_could_talk_to_whom_is_told_by_names_and_numbers() -> None:
    assert lines(effects(SHIFT)) == [
        "Nothing was changed. The change would write:",
        "  put /contiv.io/obj/x",
        "Traffic between groups would change:",
        "  tenant blue: (no group) (3 endpoints) to web (2), tcp/80: denied, by rule blue:p1:1",
    ]


def test_a_rule_that_goes_is_named() -> None:
    told = lines(effects({**SHIFT, "becomes": "allowed", "by": [], "before": ["blue:p1:1"]}))
    assert told[-1].endswith("tcp/80: allowed, without rule blue:p1:1")


def test_what_is_not_told_whole_is_said() -> None:
    assert lines(effects())[-1] == "Traffic between groups would not change."
    told = lines(effects(complete=False))
    assert "  (more keys, in later transactions)" in told
    assert told[-1] == "This list is incomplete: the change affects too much traffic to list."
