"""What `--what-if` prints, and that nothing is changed."""

from typing import Any

from netctl.what_if import lines

WRITES = [{"key": "/contiv.io/obj/x", "action": "put"}]
UNCHANGED = {"added": 0, "removed": 0, "replaced": 0}
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
    flows = {"hosts": {"h1": UNCHANGED}, "missing": {}, "complete": complete}
    told = {"writes": WRITES, "complete": complete, "reach": reach, "flows": flows}
    return {"effects": told}


def test_who_could_talk_to_whom_is_told_by_names_and_numbers() -> None:
    assert lines(effects(SHIFT)) == [
        "Nothing was changed. The change would write:",
        "  put /contiv.io/obj/x",
        "Traffic between groups would change:",
        "  tenant blue: (no group) (3 endpoints) to web (2), tcp/80: denied, by rule blue:p1:1",
        "Flows in the switches would not change.",
    ]


def test_a_rule_that_goes_is_named() -> None:
    told = lines(effects({**SHIFT, "becomes": "allowed", "by": [], "before": ["blue:p1:1"]}))
    assert told[-2].endswith("tcp/80: allowed, without rule blue:p1:1")


def test_what_is_not_told_whole_is_said() -> None:
    assert lines(effects())[-2] == "Traffic between groups would not change."
    told = lines(effects(complete=False))
    assert "  (more keys, in later transactions)" in told
    assert told[-2:] == [
        "This list is incomplete: the change affects too much traffic to list.",
        "Flows are not counted: the change is too large.",
    ]


def test_flows_are_told_for_hosts_where_they_change() -> None:
    told = effects()
    changed = {"added": 3, "removed": 1, "replaced": 2}
    told["effects"]["flows"]["hosts"] |= {"h2": changed}
    told["effects"]["flows"]["missing"] = {"h3": "no netplugin is registered"}
    assert lines(told)[-3:] == [
        "Flows in the switches would change:",
        "  host h2: 3 added, 1 removed, 2 replaced",
        "No figures of host h3: no netplugin is registered",
    ]
