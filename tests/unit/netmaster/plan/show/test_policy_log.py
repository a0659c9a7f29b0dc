"""Pages of what rules with `log` decided, over all hosts."""

import json
from typing import Any

from netmaster.plan.show.policy_log import LogEnd, LogPage, LogQuery, of_agents, page


def end(tenant: str = "blue") -> dict[str, Any]:
    return {
        **dict.fromkeys(LogEnd.__annotations__, "x"),
        "tenant": tenant,
        "address": "10.1.0.1",
        "port": 80,
    }


def record(number: int, at: str, **more: Any) -> dict[str, Any]:
    names = {"tenant": "blue", "policy": "doors", "rule": "1", "action": "deny", "protocol": "tcp"}
    ends = {"source": end(), "destination": end()}
    return {"number": number, "at": at, **names, **ends, **more}


def said(*records: dict[str, Any], missing: object = (), unrecorded: object = ()) -> bytes:
    whole = {
        "records": records,
        "unrecorded": unrecorded,
        "missing": dict(missing),  # type: ignore[call-overload]
    }
    return json.dumps(whole).encode()


SAID = {
    "h1": said(record(1, "12:00"), record(2, "12:02", tenant="red")),
    "h2": said(record(1, "12:01", action="allow"), record(2, "12:01")),
}


def places(found: LogPage) -> list[tuple[str, int]]:
    return [(one["host"], one["number"]) for one in found.items]


def test_the_newest_come_first_a_page_at_a_time() -> None:
    first = page(SAID, {"h3": "away"}, LogQuery(having={}, limit=3))
    assert places(first) == [("h1", 2), ("h2", 2), ("h2", 1)]
    assert first.unreachable == {"h3": "away"}
    second = page(SAID, {}, LogQuery(having={}, limit=3, before=first.next))
    assert (places(second), second.next) == ([("h1", 1)], None)


def test_filters() -> None:
    def asked(**having: str) -> list[tuple[str, int]]:
        return places(page(SAID, {}, LogQuery(having=having, limit=9)))

    assert asked(action="allow") == [("h2", 1)]
    assert asked(tenant="red") == [("h1", 2)]
    assert asked(host="h1", policy="doors") == [("h1", 2), ("h1", 1)]


def test_who_may_see_some_tenants_sees_their_rules_alone_and_no_names_of_others() -> None:
    foreign = record(1, "12:03", destination=end("red"))
    left = {"tenant": "red", "policy": "p", "rule": "1", "packets": 5}
    answers = {"h1": said(foreign, record(2, "12:04", tenant="red"), unrecorded=[left])}
    found = page(answers, {}, LogQuery(having={}, limit=9, tenants={"blue"}))
    assert places(found) == [("h1", 1)]
    assert found.items[0]["source"] == end()
    assert found.items[0]["destination"] == {
        **dict.fromkeys(LogEnd.__annotations__, ""),
        "address": "10.1.0.1",
        "port": 80,
    }
    assert found.unrecorded == []
    everything = page(answers, {}, LogQuery(having={}, limit=9))
    assert everything.unrecorded == [{"host": "h1", **left}]


def test_an_answer_that_cannot_be_read_is_silence() -> None:
    answers = {
        "h1": b"{}",
        "h2": b"<html>",
        "h3": said({"number": 1}),
        "h4": said(record(1, "12:00"), missing=[("contivVlanBridge", "away")]),
    }
    found = page(answers, {}, LogQuery(having={}, limit=9))
    assert places(found) == [("h4", 1)]
    assert found.unreachable["h4"] == "contivVlanBridge: away"
    assert found.unreachable.keys() == answers.keys()


def test_agents_are_asked_for_no_more_than_a_page_needs() -> None:
    having = {"tenant": "blue", "host": "h1"}
    assert of_agents(LogQuery(having=having, limit=5)) == {"tenant": "blue", "limit": "6"}
    further = LogQuery(having=having, limit=5, before=("12:00", "h1", 3))
    assert of_agents(further) == {"tenant": "blue"}
