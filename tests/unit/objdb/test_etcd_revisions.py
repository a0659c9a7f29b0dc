"""A watch of etcd that is to tell every revision: one delta for each, whatever comes at once."""

from collections.abc import AsyncGenerator, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from objdb.api import Delta, Keep, Snapshot, keep_all
from objdb.etcd.history import WatchPosition
from objdb.etcd.watching import EtcdWatcher, KeyRange


def event(key: str, rev: int, *, deleted: bool = False) -> Any:
    kv = SimpleNamespace(key=key.encode(), value=b"v", mod_revision=rev)
    return SimpleNamespace(kv=kv, type=int(deleted))


class _Watcher(EtcdWatcher):
    """A watcher whose store answers with three revisions at once."""

    async def _snapshot(
        self, _ranges: Iterable[KeyRange], _keep: Keep = keep_all
    ) -> tuple[Snapshot, WatchPosition]:
        return Snapshot(1, {}), WatchPosition(1)

    async def changes(self, _keys: KeyRange, _at: WatchPosition) -> AsyncGenerator[list[Any], None]:
        yield [event("/a", 2), event("/b", 2), event("/a", 3, deleted=True), event("/a", 5)]


@pytest.mark.parametrize(("every", "revisions"), [(False, [5]), (True, [2, 3, 5])])
async def test_revisions_are_told_apart_if_asked(every: bool, revisions: list[int]) -> None:
    channels: Any = SimpleNamespace(closed=False)
    found: list[Delta] = []
    async for item in _Watcher(channels).stream("/", every_revision=every):
        if isinstance(item, Delta):
            found.append(item)
            channels.closed = item.rev == 5
    assert [delta.rev for delta in found] == revisions
    assert sum(len(delta.deletes) for delta in found) == int(every)
