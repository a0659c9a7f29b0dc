"""What agents answer is read within limits, and blamed on the agent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from core.errors import AgentUnavailable
from netmaster import agent_answers
from netmaster.agent_answers import DEEPEST, HOP, Count, Name
from netmaster.api.v2.diagnostics import suggestion
from netmaster.plan.show import flow_pages, kubernetes_rules, policy_log, rule_hits, self_test
from netmaster.plan.show.policy_log import LogQuery
from netmaster.view import View

COUNTS = TypeAdapter(dict[Name, Count])
HOSTILE = (
    b"",
    b"garbage",
    b"null",
    b"[" * 200_000,
    b'{"a":' * 50_000,
    b'{"a":1e999}',
    b'{"a":-1e999}',
    b'{"a":NaN}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":18446744073709551616}',
    b'{"a":-1}',
    b'{"a":1.5}',
    b'{"a":true}',
    b'{"a":"1"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\xff"}',
    b'{"a":null}',
    json.dumps({"a" * 2000: 1}).encode(),
)


@pytest.mark.parametrize("body", HOSTILE)
def test_what_is_no_answer_is_blamed_on_its_host(body: bytes) -> None:
    with pytest.raises(AgentUnavailable, match="host h1: not a count: ") as raised:
        agent_answers.read("h1", "a count", body, COUNTS)
    assert len(str(raised.value)) < 600


def test_what_is_deep_is_refused_where_any_value_may_be() -> None:
    anything = TypeAdapter[Any](Any)
    for depth, fine in ((DEEPEST, True), (DEEPEST + 1, False)):
        body = b"[" * depth + b"1e3" + b"]" * depth
        if fine:
            assert agent_answers.read("h1", "it", body, anything)
            continue
        with pytest.raises(AgentUnavailable, match="more than 32 levels"):
            agent_answers.read("h1", "it", body, anything)


def test_a_hop_keeps_what_this_release_does_not_know() -> None:
    hop = {"host": "h1", "faults": [], "later": {"x": 1}, "exits": []}
    assert agent_answers.read("h1", "a trace", json.dumps(hop).encode(), HOP) == hop


_NAMES = ("rules", "kubernetes", "missing", "records", "unrecorded", "passed", "failed", "h1")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(_NAMES) | st.text(), inner),
)


@given(st.binary() | _JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_an_agent_answers_the_others_are_shown(body: bytes) -> None:
    good = b'{"rules":{},"kubernetes":[],"missing":{},"records":[],"unrecorded":[],'
    good += b'"on":true,"position":1,"lost":{}}'
    said = {"h1": body, "h2": good}
    assert "h2" not in rule_hits.hits(View(), said, {})["unreachable"]
    whole = b'{"rules":[],"services":[],"complete":true,"missing":{}}'
    merged = kubernetes_rules.merged({"h1": body, "h2": whole}, {})
    assert "h2" not in merged["unreachable"]
    json.dumps(merged, allow_nan=False)
    page = policy_log.page(said, {}, LogQuery(having={}, limit=5))
    assert "h2" not in page.unreachable
    json.dumps([page.items, page.unrecorded], allow_nan=False)
    seen = flow_pages.page(said, {}, 5)
    assert "h2" not in seen.gaps["unreachable"]
    json.dumps([seen.items, seen.gaps], allow_nan=False)
    test = self_test.report({"h1": body, "h2": b'{"x":{"passed":1,"failed":{}}}'}, {}, [])
    (other,) = (one["checks"] for one in test["hosts"] if one["host"] == "h2")
    assert other["x"] == {"passed": 1, "failed": {}}
    json.dumps(test, allow_nan=False).encode()


@pytest.mark.parametrize(
    "end",
    [
        {},
        {"namespace": "shop"},
        {"address": "10.1.1.1/24"},
        {"address": "fe80::1%eth0"},
        {"address": "fe80::1%a\nb"},
    ],
)
@pytest.mark.parametrize("which", ["source", "destination"])
def test_an_end_that_no_rule_could_name_is_blamed_on_the_host_that_tells_it(
    which: str, end: dict[str, str]
) -> None:
    ends = {name: {**NOBODY, "network": "n1"} for name in ("source", "destination")}
    ends[which] = {**NOBODY, **end}
    told = {**ends, "protocol": "tcp", "port": 80, "dropped": False, "connections": 1}
    whole = {"on": True, "conversations": [told], "complete": True, "from": 0, "lost": {}}
    read, failed = suggestion._read({"h1": json.dumps(whole).encode()})
    assert read == {}
    assert "host h1: not conversations" in failed["h1"]


NOBODY = dict.fromkeys(("network", "group", "namespace", "address"), "")
