"""Pages of flows over all hosts: newest first, each once, no names of other tenants."""

from netmaster.plan.show.flow_pages import FlowEnd, FlowPage, page
from tests.unit.netmaster.flow_answers import end, record, said

SAID = {
    "h1": said(record(1, 0), record(2, 2)),
    "h2": said(record(1, 1), record(2, 1), lost=3),
    "h3": said(on=False),
    "h4": b"[]",
    "h5": said(record(1, 0, first="noon")),
}


def places(found: FlowPage) -> list[tuple[str, int]]:
    return [(one["host"], one["number"]) for one in found.items]


def test_the_newest_of_all_hosts_come_first() -> None:
    found = page(SAID, {"h6": "away"}, 3)
    assert places(found) == [("h1", 2), ("h2", 2), ("h2", 1)]
    assert found.next is not None
    assert (found.next.host, found.next.number) == ("h2", 1)
    assert found.gaps["off"] == ["h3"]
    assert found.gaps["lost"] == {"h2": {"room": 3}}
    assert set(found.gaps["unreachable"]) == {"h4", "h5", "h6"}
    assert found.positions["h1"] == 9
    assert page(SAID, {}, 4).next is None


def test_a_client_sees_flows_of_its_tenants_and_no_names_of_others() -> None:
    theirs = record(1, 1, source=end("red"), destination=end("red"))
    into = record(2, 2, source=end("red"))
    out = record(3, 3, destination=end("red"))
    found = page({"h1": said(theirs, into, out)}, {}, 9, {"blue"}).items
    assert [one["number"] for one in found] == [3, 2]
    sent, got = found
    assert sent["destination"]["address"] == "10.1.0.1"
    for hidden in (sent["destination"], got["source"]):
        assert not any(hidden[name] for name in FlowEnd.__annotations__ if name not in SHOWN)  # type: ignore[literal-required]
    assert (sent["policy"], sent["rule"], sent["because"]) == ("", "", "")
    assert (got["policy"], got["destination"]["container"]) == ("x", "x")


SHOWN = ("address", "port")


def test_hosts_that_may_have_more_of_a_page_are_named() -> None:
    answers = {
        "h1": said(record(1, 1), record(2, 5)),
        "h2": said(record(1, 3), record(2, 4)),
        "h3": said(record(1, 2)),
    }
    assert page(answers, {}, 9, asked=2).short == ["h1", "h2"]
    assert page(answers, {}, 3, asked=2).short == ["h2"]  # the fourth is h3's: h1 has none before
    assert page(answers, {}, 2, asked=2).short == []
    assert page(answers, {}, 2).short == []
