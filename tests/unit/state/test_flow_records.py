"""What may be asked of records of flows."""

import pytest

from core.errors import Malformed
from state.flow_records import FILTERS, EndNames, RecordPlace, chooser
from tests.unit.state.flow_records import CROSSING, RECORD


@pytest.mark.parametrize(
    ("name", "fitting", "other"),
    [
        ("verdict", "forwarded", "dropped"),
        ("reason", "policy", "spoofed"),
        ("protocol", "tcp", "udp"),
        ("service", "db:blue", "db"),
        ("policy", "doors", "door"),
        ("rule", "3", "4"),
        ("tenant", "blue", "red"),
        ("since", "1970-01-01T00:16:50.500Z", "1970-01-01T00:16:51Z"),
        ("until", "1970-01-01T00:16:40.250+00:00", "1970-01-01T00:16:40"),
        *(("from", text, "red") for text in ("web-1", "shop/web-1", "c1", "web", "sea")),
        ("from", "10.1.0.0/24", "10.2.0.0/24"),
        ("from", "sea.blue-c1", "sea.blue-c"),
        ("to", "fd00::5", "10.1.0.2"),
        ("to", "10.1.0.200", "10.1.0.201"),
        ("to", "db", "cache"),
        ("to", "db:blue", "web"),
        ("fromTenant", "blue", "red"),
        ("fromNetwork", "sea", "lake"),
        ("fromGroup", "web", "db"),
        ("fromNamespace", "shop", "bank"),
        ("fromPod", "web-1", "web"),
        ("fromEndpoint", "sea.blue-c1", "c1"),
        ("fromContainer", "c1", "web"),
        ("fromAddress", "10.1.0.0/16", "10.1.0.3"),
        ("toAddress", "fd00:0:0::5", "10.0.0.0/8"),
        ("toPort", "8080", "80"),
        ("fromLabels", "app=web,tier", "app=web,!tier"),
        ("fromLabels", "app==web,tier!=back,!zone", "app!=web"),
        ("toLabels", "!app", "app"),
    ],
)
def test_a_record_fits_what_is_asked_for(name: str, fitting: str, other: str) -> None:
    assert name in FILTERS
    assert chooser({name: fitting})(RECORD)
    assert not chooser({name: other})(RECORD)
    assert not chooser({"verdict": "forwarded", name: other})(RECORD)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("verdict", "lost"),
        ("since", "yesterday"),
        ("until", "99999999999999"),
        ("toPort", "65536"),
        ("fromAddress", "web"),
        ("fromLabels", "app=web,,"),
        ("toLabels", "!="),
        ("colour", "red"),
        ("from", "x" * 2000),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, text: str) -> None:
    with pytest.raises(Malformed):
        chooser({name: text})


def test_places_are_in_order_and_read_back() -> None:
    shown = RECORD.shown()
    place = RecordPlace.of(shown["first"], "h.1", shown["number"])
    assert RecordPlace.read(str(place)) == place == (RECORD.begun, "h.1", 7)
    assert RecordPlace.read("") is None
    assert not place.is_before(RECORD, "h.1")
    assert place.is_before(RECORD, "a")
    assert not place.is_before(RECORD, "z")
    for text in ("x", "1.2", "1..h", "1.2."):
        with pytest.raises(Malformed):
            RecordPlace.read(text)


def test_a_record_is_seen_whole_by_who_may_see_both_ends() -> None:
    assert CROSSING.seen_by(frozenset({"blue", "red"})) is CROSSING


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("to", "db-0"),
        ("toPod", "db-0"),
        ("toGroup", "vault"),
        ("toNetwork", "lake"),
        ("toLabels", "app=db"),
        ("tenant", "red"),
        ("policy", "doors"),
        ("rule", "3"),
    ],
)
def test_nothing_is_found_by_names_that_the_client_may_not_see(name: str, text: str) -> None:
    fits = chooser({name: text})
    assert fits(CROSSING)
    assert not fits(CROSSING.seen_by(frozenset({"blue"})))


def test_a_record_is_found_by_what_the_client_may_see() -> None:
    seen = CROSSING.seen_by(frozenset({"blue"}))
    assert all(
        chooser({name: text})(seen)
        for name, text in (("fromPod", "web-1"), ("toAddress", "10.9.0.7"), ("tenant", "blue"))
    )
    theirs = CROSSING.seen_by(frozenset({"red"}))
    assert (theirs.source.names, theirs.policy) == (EndNames(), "doors")
