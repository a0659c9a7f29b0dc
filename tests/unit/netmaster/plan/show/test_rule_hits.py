"""The hits of rules over all hosts."""

import json

import pytest

from netmaster.plan.show.ofnet_rules import policy_db
from netmaster.plan.show.rule_hits import hits
from tests.unit.netmaster.scene import Scene


@pytest.fixture
def scene() -> Scene:
    """Return two groups with one policy of two rules."""
    scene = Scene()
    scene.network("n1")
    scene.policy("p1")
    scene.policy("p2")
    for name in ("g1", "g2"):
        scene.group(name, policies=["p1"])
    scene.rule("1", protocol="tcp", port=80)
    scene.rule("2", action="deny")
    scene.rule("1", policy_name="p2")
    return scene


def said(rules: object = (), kubernetes: object = (), missing: object = ()) -> bytes:
    whole = {
        "rules": dict(rules),  # type: ignore[call-overload]
        "kubernetes": kubernetes,
        "missing": dict(missing),  # type: ignore[call-overload]
    }
    return json.dumps(whole).encode()


def derived(scene: Scene, rule: str) -> list[str]:
    """Return the ids of the ofnet rules of a rule of p1."""
    return [one for one in policy_db(scene.view) if f":default:p1:{rule}:" in one]


def test_all_that_is_derived_from_a_rule_counts_for_it_on_all_hosts(scene: Scene) -> None:
    first = derived(scene, "1")
    assert len(first) == 4  # two groups, requests and replies
    counted = {"h1": said([(one, [1, 100]) for one in first]), "h2": said([(first[0], [5, 7])])}
    found = hits(scene.view, counted, {"h3": "away"}, tenant="default", policy="p1")
    assert found["items"] == [
        {
            "rule": "default:p1:1",
            "packets": 9,
            "bytes": 407,
            "hosts": {"h1": {"packets": 4, "bytes": 400}, "h2": {"packets": 5, "bytes": 7}},
        },
        {"rule": "default:p1:2", "packets": 0, "bytes": 0, "hosts": {}},
    ]
    assert found["unreachable"] == {"h3": "away"}


def test_a_rule_that_is_gone_meanwhile_is_left_out(scene: Scene) -> None:
    found = hits(scene.view, {"h1": said([("g:was:here", [1, 100])])}, {})
    assert [one["rule"] for one in found["items"]] == [
        "default:p1:1",
        "default:p1:2",
        "default:p2:1",
    ]
    assert sum(one["packets"] for one in found["items"]) == 0


def test_who_may_not_see_all_tenants_sees_no_rules_of_others_or_of_kubernetes(
    scene: Scene,
) -> None:
    judged = {"rule": "r", "policies": ["p"], "verdict": "deny", "packets": 2, "bytes": 3}
    counted = {"h1": said([], [judged]), "h2": said([], [judged])}
    restricted = hits(scene.view, counted, {}, tenants={"blue"})
    assert (restricted["items"], restricted["kubernetes"]) == ([], [])
    (shown,) = hits(scene.view, counted, {})["kubernetes"]
    assert (shown["rule"], shown["policies"], shown["packets"]) == ("r", ["p"], 4)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"null", b'{"rules":{}}', b'{"rules":{"a":[1]},"kubernetes":[]}']
)
def test_an_answer_that_cannot_be_read_makes_the_host_silent(scene: Scene, answer: bytes) -> None:
    found = hits(scene.view, {"h1": answer}, {})
    assert found["unreachable"]["h1"].startswith("host h1: not an answer about rules: ")


def test_a_bridge_without_an_answer_is_told_and_the_other_counted(scene: Scene) -> None:
    first = derived(scene, "1")[0]
    found = hits(scene.view, {"h1": said([(first, [1, 2])], (), [("vlan", "gone")])}, {})
    assert found["unreachable"] == {"h1": "vlan: gone"}
    assert found["items"][0]["packets"] == 1
