"""The requests of one connection that wait for answers, by transaction id (xid).

`ofnet.channel.session` sends the requests and passes on replies and errors; here each is matched to
the caller that waits for it. Knows messages, but no connection.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from core.errors import SwitchRefused, SwitchUnavailable
from ofnet.channel import wire
from ofnet.diff import FlowStamp
from ofnet.flows import AnyFlow

T = TypeVar("T")

ReadPart = Callable[[bytes], tuple[list[T], bool]]
"""Reads one part of a flow-stats reply: its flows, and whether more parts follow."""

MAX_DUMP: Final = 4_000_000
"""Flows in a dump above which the switch is taken to be faulty and dropped."""


class FlowsRefused(SwitchRefused):
    """The switch refused flows. `flows` has each of them with the switch's reason.

    Whether the other flows of the same write are installed is unknown.
    """

    def __init__(self, flows: Sequence[tuple[AnyFlow, str]]) -> None:
        flow, reason = flows[0]
        super().__init__(f"switch refused {len(flows)} flow(s), first: {flow}: {reason}")
        self.flows = tuple(flows)


class Writes:
    """Flows to add and then to delete. `groups` are those that the added flows use, without order.

    The switch gets the groups first, then the additions, then the deletions.
    """

    def __init__(self, add: Sequence[AnyFlow] = (), delete: Sequence[FlowStamp] = ()) -> None:
        self.add, self.delete = add, delete
        used = [group for flow in add if (group := flow.group) is not None]
        self.groups = tuple({group.id: group for group in used}.values())

    def __len__(self) -> int:
        return len(self.groups) + len(self.add) + len(self.delete)

    def concerned(self, index: int) -> Iterator[AnyFlow]:
        """Yield the flows that are not in place if the switch refuses one of the messages."""
        if index < len(self.groups):
            group = self.groups[index]
            yield from (flow for flow in self.add if flow.group == group)
        elif index < len(self.groups) + len(self.add):
            yield self.add[index - len(self.groups)]


@dataclass(slots=True)
class Batch:
    """Messages with consecutive xids, of which only errors are answered."""

    first: int
    size: int
    errors: dict[int, str] = field(default_factory=dict)
    """The switch's error text by the message's index in the batch."""

    def raise_errors(self, writes: Writes) -> None:
        """Raise what the switch refused of the messages of `writes`, or of others.

        Raises FlowsRefused, or SwitchRefused when no addition was refused.
        """
        flows = [
            (flow, text) for index, text in self.errors.items() for flow in writes.concerned(index)
        ]
        if flows:
            raise FlowsRefused(list(dict(flows).items()))
        for text in self.errors.values():
            raise SwitchRefused(f"switch refused a deletion: {text}")


@dataclass(slots=True)
class _Dump(Generic[T]):
    done: asyncio.Future[list[T]]
    read: ReadPart[T]
    limit: int
    found: list[T] = field(default_factory=list)

    def add(self, part: bytes) -> None:
        """Take a part of the reply; the last one completes it. Raises MalformedOpenflow."""
        found, more = self.read(part)
        self.found += found
        if len(self.found) > self.limit:
            raise wire.MalformedOpenflow(f"dump of more than {self.limit} flows")
        if not more and not self.done.done():
            self.done.set_result(self.found)


class Requests:
    """The open requests of one connection."""

    # Three kinds of requests, by how the switch answers. A request with one reply has a future. A
    # dump has a future and collects parts under one xid. Flow-mods are answered only if they fail,
    # so a batch has no future: it collects errors until the barrier behind it is answered.

    def __init__(self, *, max_dump: int = MAX_DUMP) -> None:
        self.next_xid = 1
        self._max_dump = max_dump
        self._replies: dict[int, asyncio.Future[None]] = {}
        self._dumps: dict[int, _Dump[Any]] = {}
        self._batches: list[Batch] = []

    def take_xids(self, count: int = 1) -> int:
        """Return the first of `count` consecutive xids."""
        # A batch must not wrap around: an error is found by its distance from the first xid.
        if self.next_xid + count > wire.MAX_XID:
            self.next_xid = 1
        first = self.next_xid
        self.next_xid += count
        return first

    @contextmanager
    def reply_to(self, xid: int) -> Iterator[asyncio.Future[None]]:
        """Provide the future of a request's single reply; remove the request afterwards."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._replies[xid] = future
        try:
            yield future
        finally:
            self._replies.pop(xid, None)

    @contextmanager
    def dump_of(self, xid: int, read: ReadPart[T]) -> Iterator[asyncio.Future[list[T]]]:
        """Provide the future of a flow-stats reply in several parts."""
        dump = _Dump(asyncio.get_running_loop().create_future(), read, self._max_dump)
        self._dumps[xid] = dump
        try:
            yield dump.done
        finally:
            self._dumps.pop(xid, None)

    @contextmanager
    def batch(self, size: int) -> Iterator[Batch]:
        """Collect the errors of `size` flow-mods for the length of the body."""
        batch = Batch(self.take_xids(size), size)
        self._batches.append(batch)
        try:
            yield batch
        finally:
            self._batches.remove(batch)

    # -- answers of the switch -----------------------------------------------------------------

    def on_reply(self, xid: int) -> None:
        """Complete the request with this xid, if it still waits."""
        future = self._replies.pop(xid, None)
        if future is not None and not future.done():
            future.set_result(None)

    def on_dump_part(self, xid: int, body: bytes) -> None:
        """Add a part to the dump with this xid. Raises MalformedOpenflow."""
        dump = self._dumps.get(xid)
        if dump is not None:
            dump.add(body)

    def on_error(self, xid: int, text: str) -> bool:
        """Fail the request with this xid; return False if no request has it."""
        refused = SwitchRefused(f"switch refused a request: {text}")
        if (waiting := self._replies.pop(xid, None)) is not None:
            _fail(waiting, refused)
            return True
        if (dump := self._dumps.get(xid)) is not None:
            _fail(dump.done, refused)
            return True
        for batch in self._batches:
            if batch.first <= xid < batch.first + batch.size:
                batch.errors[xid - batch.first] = text
                return True
        return False

    def fail_all(self, reason: str) -> None:
        """Fail every open request: the connection is lost, and their outcome is unknown."""
        lost = SwitchUnavailable(f"connection to the switch lost: {reason}")
        for future in self._replies.values():
            _fail(future, lost)
        for dump in self._dumps.values():
            _fail(dump.done, lost)
        self._replies.clear()
        self._dumps.clear()


def _fail(future: asyncio.Future[T], exc: Exception) -> None:
    if not future.done():
        future.set_exception(exc)
