"""Watches of one stream prove together that the store has their history."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from aetcd import rpc

from objdb.etcd.channel import Channels
from objdb.etcd.history import Evidence, HistoryReader, Rewound, StreamSeen, WatchPosition

NEW = Evidence(b"new", 9, (b"value", 9))


class Store:
    """A store with one key, as it is at any revision; `asked` are the reads."""

    def __init__(self, kv: Any = None) -> None:
        self.kvs = [] if kv is None else [kv]
        self.asked: list[tuple[bytes, int]] = []

    async def call(self, _method: Any, request: Any) -> Any:
        self.asked.append((request.key, request.revision))
        await asyncio.sleep(0)
        return SimpleNamespace(kvs=self.kvs, header=SimpleNamespace(cluster_id=1))


def _reader(store: Store) -> HistoryReader:
    return HistoryReader(cast("Channels", store))


def _as(evidence: Evidence) -> Any:
    assert evidence.entry is not None
    value, rev = evidence.entry
    return rpc.KeyValue(key=evidence.key, value=value, mod_revision=rev)


def _positions(seen: StreamSeen) -> list[WatchPosition]:
    return [WatchPosition(rev, 1, Evidence(b"old", rev, (b"", rev)), seen) for rev in range(1, 6)]


async def test_watches_of_a_stream_share_the_look_for_what_was_seen_last() -> None:
    seen, store = StreamSeen(), Store(_as(NEW))
    seen.note(NEW)
    reader, positions = _reader(store), _positions(seen)
    await asyncio.gather(*(reader.verify(b"", at, opened_again=True) for at in positions))
    # One look begins before the others ask; theirs begins after.
    assert store.asked == [(b"new", 9)] * 2
    await reader.verify(b"", positions[0], opened_again=True)
    assert len(store.asked) == 3


async def test_each_of_them_learns_that_the_store_has_another_history() -> None:
    seen, store = StreamSeen(), Store(_as(Evidence(b"new", 9, (b"other", 9))))
    seen.note(NEW)
    reader = _reader(store)
    found = await asyncio.gather(
        *(reader.verify(b"", at, opened_again=True) for at in _positions(seen)),
        return_exceptions=True,
    )
    assert [type(one) for one in found] == [Rewound] * 5


async def test_what_a_stream_saw_is_no_proof_of_a_later_position() -> None:
    seen, own = StreamSeen(), Evidence(b"own", 7, (b"mine", 7))
    seen.note(NEW)
    store = Store(_as(own))
    await _reader(store).verify(b"", WatchPosition(12, 1, own, seen), opened_again=True)
    assert store.asked == [(b"own", 12)]


async def test_a_position_carries_what_its_old_stream_saw_to_the_next() -> None:
    old, new = StreamSeen(), StreamSeen()
    old.note(NEW)
    at = WatchPosition(5, 1, Evidence(b"old", 5, (b"", 5)), old)
    at.on(new)
    assert new.last == NEW
    event = rpc.Event(kv=rpc.KeyValue(key=b"next", value=b"x", mod_revision=12))
    at.went_on(event)
    assert at.rev == 12
    assert new.last == Evidence(b"next", 12, (b"x", 12))
    assert old.last == NEW
