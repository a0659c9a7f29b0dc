"""`objdb.consul.reading`: comparison of a listing with the known entries."""

from base64 import b64encode
from functools import partial
from typing import cast

from objdb.api import Delta, Entry, Snapshot
from objdb.consul.agents import ConsulAgents
from objdb.consul.reading import ConsulReader, KeyListing, update


def listing(index: int, **revs: int) -> KeyListing:
    value = b64encode(b"v").decode()
    items = [{"Key": key, "Value": value, "ModifyIndex": rev} for key, rev in revs.items()]
    return KeyListing(index, items, 0.0)


def known(**revs: int) -> dict[str, int]:
    return {f"/{key}": rev for key, rev in revs.items()}


def entries(**revs: int) -> dict[str, Entry]:
    return {key: Entry(key, b"v", rev) for key, rev in known(**revs).items()}


def test_what_changed_and_what_is_gone_is_a_delta() -> None:
    world = known(a=1, b=2, c=3)
    delta = update(world, listing(9, a=1, b=8, d=9), 3)
    assert delta == Delta(9, (Entry("/b", b"v", 8), Entry("/d", b"v", 9)), ("/c",))
    assert world == known(a=1, b=8, d=9)


def test_an_answer_without_news_is_none() -> None:
    world = known(a=1)
    assert update(world, listing(9, a=1), 3) is None
    assert world == known(a=1)


def test_an_index_alone_that_went_back_is_no_news() -> None:
    assert update(known(a=5), listing(5, a=5), 9) is None


def test_revisions_that_went_back_are_a_snapshot() -> None:
    found = update(known(a=5, b=6), listing(6, a=2, b=6), 6)
    assert found == Snapshot(6, entries(a=2, b=6), rewound=True)


def test_a_key_that_came_back_with_an_old_revision_is_a_rewound_snapshot() -> None:
    found = update(known(a=5), listing(5, a=5, b=4), 9)
    assert found == Snapshot(5, entries(a=5, b=4), rewound=True)


def test_keys_that_are_gone_while_the_index_went_back_are_a_rewound_snapshot() -> None:
    found = update(known(a=5, b=7), listing(5, a=5), 7)
    assert found == Snapshot(5, entries(a=5), rewound=True)


def test_an_empty_value_is_empty() -> None:
    empty = KeyListing(1, [{"Key": "a", "Value": None, "ModifyIndex": 1}], 0.0)
    assert update({}, empty, 0) == Delta(1, (Entry("/a", b"", 1),), ())


class Restored:
    """A cluster whose agent answers each query at once with the given listings; its own agent."""

    def __init__(self, *answers: KeyListing) -> None:
        self.closed = False
        self.asked_from: list[int] = []
        self._answers = list(answers)

    @property
    def current(self) -> "Restored":
        return self

    async def call(self, query: partial[object], _patience: float) -> KeyListing:
        self.asked_from.append(query.keywords["index"])
        answer = self._answers.pop(0)
        self.closed = not self._answers
        return answer


async def test_after_an_index_that_went_back_it_is_not_waited_for() -> None:
    cluster = Restored(listing(9, a=9), listing(3, a=3), listing(4, a=3, b=4))
    items = [item async for item in ConsulReader(cast("ConsulAgents", cluster)).stream("/")]
    assert cluster.asked_from == [0, 9, 0]
    assert [type(item) for item in items] == [Snapshot, Snapshot, Delta]
    assert [item.rev for item in items] == [9, 3, 4]
