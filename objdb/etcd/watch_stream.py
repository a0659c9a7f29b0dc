"""A stream to a member, which all watches of a client share.

In comes what is to be watched; out comes an `EtcdWatch`, whose `read` returns the member's
responses to it. A stream ends for all of its watches at once: when it breaks, or the member is
silent.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio
from aetcd import rpc

from core.errors import ContivError
from core.patience import patient
from core.tasks import background, detached
from objdb.etcd.channel import Channels, EtcdMember, Metadata
from objdb.etcd.grpc_errors import detail, is_stale_token, is_transient, translated
from objdb.etcd.history import StreamSeen

# Why shared: each stream costs etcd and the client a heartbeat per second, and an agent has a dozen
# watches. With a stream of its own for each, 100 idle agents cost etcd an eighth of a processor.
#
# A refused watch has no id of its own in its response. So responses that say "created" are taken
# in the order of the requests, in which etcd sends them; it sends no event of a watch before.

HEARTBEAT: Final = patient(1.0)
"""Seconds between heartbeats."""

MAX_MISSED_HEARTBEATS: Final = 3
"""Heartbeats without an answer after which the watches move to another member."""

MAX_DOUBLINGS: Final = 4
"""How often that number doubles: each time that all members were silent, one after the other."""

MAX_UNREAD: Final = 1000
"""Responses kept for a watch that does not read; it resumes after the last one that it reads."""

REQUIRE_LEADER: Final = ("hasleader", "true")
"""Metadata that makes a member without a leader end the stream instead of staying silent."""

TO_ALL: Final = -1
"""The id of no watch: the response concerns all of them, as that to a heartbeat does."""

_PROGRESS: Final = rpc.WatchRequest(progress_request=rpc.WatchProgressRequest())
_EOF: Final = grpc.aio.EOF  # type: ignore[attr-defined]  # missing in the stubs


class StreamBroken(Exception):
    """The stream broke; a watch resumes on another one after its last event."""


class TooSlow(Exception):
    """A watch did not read in time, and may resume on the same stream."""


class WatchRefused(Exception):
    """The store refused the watch: an old token, or no permission for these keys."""


class EtcdWatch:
    """One watch of a stream."""

    def __init__(self, seen: StreamSeen) -> None:
        self.seen = seen
        """What the watches of its stream saw last."""
        self.id: int | None = None
        """The member's number of this watch; None until it is created."""
        self._unread: asyncio.Queue[Any] = asyncio.Queue()
        self._ended = False

    async def read(self) -> Any:
        """Return the next response; those to heartbeats have no events.

        Raises StreamBroken, TooSlow and WatchRefused; ContivError for an error of the stream that
        another member would answer with as well.
        """
        response = await self._unread.get()
        if isinstance(response, Exception):
            raise response
        return response

    def put(self, response: Any) -> bool:
        """Let `read` return a response; return whether the watch takes more."""
        if not self._ended and self._unread.qsize() >= MAX_UNREAD:
            self.end(TooSlow())
        if not self._ended:
            self._unread.put_nowait(response)
        return not self._ended

    def end(self, why: Exception) -> None:
        """Let `read` raise an error after what is unread."""
        if not self._ended:
            self._ended = True
            self._unread.put_nowait(why)


class WatchStreams:
    """Gives watches their streams: one for each member and token in use."""

    def __init__(self, channels: Channels, heartbeat: float) -> None:
        self._channels = channels
        self._heartbeat = heartbeat
        self._stream: _SharedStream | None = None

    @asynccontextmanager
    async def watch(self, member: EtcdMember, request: Any) -> AsyncIterator[EtcdWatch]:
        """Run a watch on a member; `request` is a WatchCreateRequest."""
        metadata = await self._channels.metadata()
        # Nothing is awaited from here to `add`: the stream may otherwise end in between.
        stream = self._stream
        if stream is None or not stream.serves(member, metadata):
            silent = 0 if stream is None else stream.silent
            stream = _SharedStream(
                member, metadata, self._heartbeat, self._patience(silent), silent
            )
            self._stream = stream
            detached("watch stream", stream.run())
        watch = stream.add(request)
        try:
            yield watch
        finally:
            stream.remove(watch)

    def _patience(self, silent: int) -> int:
        """Return after how many heartbeats without an answer the next stream ends.

        When all members were silent they are late rather than dead, and to open a dozen watches
        anew makes them later. A lone member is asked over the same connection again, which helps
        only if its stream is stuck.
        """
        members = len(self._channels.members)
        doublings = MAX_DOUBLINGS if members == 1 else min(silent // members, MAX_DOUBLINGS)
        return MAX_MISSED_HEARTBEATS << doublings


class _SharedStream:
    """A stream to a member, open until its last watch is removed or it breaks."""

    def __init__(
        self, member: EtcdMember, metadata: Metadata, heartbeat: float, patience: int, silent: int
    ) -> None:
        self.silent = silent
        """Streams in a row that ended because no heartbeat was answered, this one included."""
        self._opened = (member, metadata)
        self._heartbeat = heartbeat
        self._patience = patience
        self._call = member.watch.Watch(metadata=(*metadata, REQUIRE_LEADER))
        self._seen = StreamSeen()
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._creating: deque[EtcdWatch] = deque()
        self._watches: dict[int, EtcdWatch] = {}
        self._removed: set[EtcdWatch] = set()
        """Watches that were removed before they were created."""
        self._unanswered = 0
        """Heartbeats that were due since the last response."""
        self._over = False

    def serves(self, member: EtcdMember, metadata: Metadata) -> bool:
        """Return whether a watch with this metadata may be added."""
        return not self._over and self._opened == (member, metadata)

    def add(self, request: Any) -> EtcdWatch:
        """Ask the member for a watch."""
        watch = EtcdWatch(self._seen)
        self._creating.append(watch)
        self._requests.put_nowait(rpc.WatchRequest(create_request=request))
        return watch

    def remove(self, watch: EtcdWatch) -> None:
        """End a watch, and with the last one the stream."""
        if watch.id is None:
            self._removed.add(watch)
        elif self._watches.pop(watch.id, None) is not None:
            cancel = rpc.WatchCancelRequest(watch_id=watch.id)
            self._requests.put_nowait(rpc.WatchRequest(cancel_request=cancel))
        if not self._watches and self._removed.issuperset(self._creating):
            self._over = True
            self._call.cancel()

    async def run(self) -> None:
        """Deliver responses until the stream ends, and then the reason, to all watches."""
        why: Exception = StreamBroken("stream ended")
        try:
            async with (
                background("watch requests", self._write()),
                background("watch heartbeats", self._count_unanswered()),
            ):
                await self._deliver_all()
        except grpc.aio.AioRpcError as exc:
            why = _reason(exc)
        except (asyncio.CancelledError, asyncio.InvalidStateError):
            # gRPC cancels a call when its channel is closed; this task's own end looks the same.
            why = StreamBroken(
                "heartbeats without an answer" if self._is_silent else "stream closed"
            )
        finally:
            self._over = True
            self._call.cancel()
            for watch in (*self._watches.values(), *self._creating):
                watch.end(why)

    async def _deliver_all(self) -> None:
        while (response := await self._call.read()) is not _EOF:
            self._unanswered = 0
            self._deliver(response)

    def _deliver(self, response: Any) -> None:
        if response.created:
            self._created(self._creating.popleft(), response)
        elif response.watch_id == TO_ALL:
            self.silent = 0
            for watch in list(self._watches.values()):
                self._put(watch, response)
        elif (known := self._watches.get(response.watch_id)) is not None:
            if response.canceled:
                del self._watches[response.watch_id]
            self._put(known, response)

    def _created(self, watch: EtcdWatch, response: Any) -> None:
        if not response.canceled:
            watch.id = response.watch_id
            self._watches[response.watch_id] = watch
        if watch in self._removed:
            self._removed.discard(watch)
            self.remove(watch)
        else:
            self._put(watch, response)

    def _put(self, watch: EtcdWatch, response: Any) -> None:
        if not watch.put(response):
            self.remove(watch)

    @property
    def _is_silent(self) -> bool:
        return self._unanswered > self._patience

    async def _count_unanswered(self) -> None:
        """Break the stream when the member is silent.

        A frozen member, whose TCP connection stays open, looks like keys without changes but for
        its silence. Waits are counted, not seconds: a process that did not run for a while finds
        the answers waiting, and reads them before its next wait ends. With a time limit on the
        answer it would open all watches again, just when it is late already.
        """
        while not self._is_silent:
            self._unanswered += 1
            await asyncio.sleep(self._heartbeat)
        self.silent += 1
        self._call.cancel()

    async def _write(self) -> None:
        """Send requests, and heartbeats while there are none."""
        try:
            while True:
                try:
                    async with asyncio.timeout(self._heartbeat):
                        request = await self._requests.get()
                except TimeoutError:
                    request = _PROGRESS
                await self._call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reader gets the same error


def _reason(exc: grpc.aio.AioRpcError) -> StreamBroken | WatchRefused | ContivError:
    """Return what a stream's error means for its watches."""
    if is_stale_token(exc):
        return WatchRefused(detail(exc))
    if not is_transient(exc):
        return translated(exc)
    return StreamBroken(detail(exc))
