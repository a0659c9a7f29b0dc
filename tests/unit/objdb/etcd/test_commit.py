"""The transaction that etcd is sent for a commit."""

from types import SimpleNamespace
from typing import Any, cast

from aetcd import rpc

from objdb.api import Absent, Change, Committed, Delete, Fence, Put, Unchanged
from objdb.etcd.channel import Channels
from objdb.etcd.commit import EtcdCommitter

CREATE, MOD, VERSION = rpc.Compare.CREATE, rpc.Compare.MOD, rpc.Compare.VERSION
MARKER = "/writer"


class Store:
    """A store without a marker that commits everything; `sent` is the last transaction."""

    sent: Any = None

    async def call(self, _method: Any, request: Any, _retry: Any = None) -> Any:
        if isinstance(request, rpc.RangeRequest):
            return rpc.RangeResponse()
        self.sent = request
        done = SimpleNamespace(response_txn=SimpleNamespace(succeeded=True))
        return SimpleNamespace(
            succeeded=True,
            header=SimpleNamespace(revision=7),
            responses=[done] * len(request.success),
        )


async def _sent(changes: list[Change], fence: Fence | None, marker: str | None) -> Any:
    store = Store()
    committer = EtcdCommitter(cast("Channels", store))
    assert await committer.commit(changes, fence, marker) == [Committed(7)] * len(changes)
    return store.sent


async def test_a_fenced_commit_compares_lock_and_marker_and_nests_each_change() -> None:
    change = Change((Absent("/new"), Unchanged("/old", 5)), (Put("/new", b"value"), Delete("/old")))
    sent = await _sent([change, Change((), ())], Fence("/lock", 3), MARKER)
    mark = sent.success[0].request_put.value
    assert mark
    assert sent == rpc.TxnRequest(
        compare=[
            rpc.Compare(target=CREATE, key=b"/lock", create_revision=3),
            rpc.Compare(target=MOD, key=MARKER.encode(), mod_revision=0),
        ],
        success=[
            _put(MARKER, mark),
            _nested(
                compare=[
                    rpc.Compare(target=VERSION, key=b"/new", version=0),
                    rpc.Compare(target=MOD, key=b"/old", mod_revision=5),
                ],
                success=[
                    _put("/new", b"value"),
                    rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=b"/old")),
                ],
                failure=[_read("/new"), _read("/old")],
            ),
            _nested(),
        ],
        failure=[_read("/lock"), _read(MARKER)],
    )


async def test_a_commit_without_puts_nests_the_marker() -> None:
    """A full etcd takes it then."""
    sent = await _sent([Change((), (Delete("/old"),))], None, MARKER)
    marker, _ = sent.success
    assert [op.request_put.key for op in marker.request_txn.success] == [MARKER.encode()]
    assert list(sent.failure) == [_read(MARKER), _read(MARKER)]


async def test_a_commit_without_fence_and_marker_has_its_changes_alone() -> None:
    sent = await _sent([Change((), (Put("/a", b""),))], None, None)
    assert sent == rpc.TxnRequest(success=[_nested(success=[_put("/a", b"")])])


def _put(key: str, value: bytes) -> Any:
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key.encode(), value=value))


def _read(key: str) -> Any:
    return rpc.RequestOp(request_range=rpc.RangeRequest(key=key.encode()))


def _nested(**parts: Any) -> Any:
    return rpc.RequestOp(request_txn=rpc.TxnRequest(**parts))
