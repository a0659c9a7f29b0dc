"""`objdb.consul.reading`: what a listing has that is not known."""

from base64 import b64encode

from objdb.api import Delta, Entry, Snapshot
from objdb.consul.reading import Listing, difference


def listing(index: int, **revs: int) -> Listing:
    value = b64encode(b"v").decode()
    items = [{"Key": key, "Value": value, "ModifyIndex": rev} for key, rev in revs.items()]
    return Listing(index, items, 0.0)


def known(**revs: int) -> dict[str, Entry]:
    return {f"/{key}": Entry(f"/{key}", b"v", rev) for key, rev in revs.items()}


def test_what_changed_and_what_is_gone_is_a_delta() -> None:
    world = known(a=1, b=2, c=3)
    delta = difference(world, listing(9, a=1, b=8, d=9))
    assert delta == Delta(9, (Entry("/b", b"v", 8), Entry("/d", b"v", 9)), ("/c",))
    assert world == known(a=1, b=8, d=9)


def test_an_answer_without_news_is_none() -> None:
    world = known(a=1)
    assert difference(world, listing(9, a=1)) is None
    assert world == known(a=1)


def test_an_index_alone_that_went_back_is_no_news() -> None:
    assert difference(known(a=5), listing(5, a=5)) is None


def test_revisions_that_went_back_are_a_snapshot() -> None:
    found = difference(known(a=5, b=6), listing(3, a=2, b=6))
    assert isinstance(found, Snapshot)
    assert found.entries == known(a=2, b=6)


def test_an_empty_value_is_empty() -> None:
    empty = Listing(1, [{"Key": "a", "Value": None, "ModifyIndex": 1}], 0.0)
    assert difference({}, empty) == Delta(1, (Entry("/a", b"", 1),), ())
