"""Whether the store still has the history that a watch resumes in.

In comes the position of a watch that was opened again; out comes nothing, or `HistoryLost`. The
proof is a key that was seen: it must be found, as it was, at the revision at which it was seen.
"""

# After a restore, etcd accepts a watch from a revision in its future and stays silent until it gets
# there; and once it is there, that revision is another one. The cluster id does not tell: a restore
# may keep it. So a watch that is opened again first has a key read that was seen, at the revision
# at which it was. That read is linearizable, because a member that lags behind the others may lag
# behind the watch as well.
#
# Why watches prove it together: a client has a dozen of them, which lose their stream at once. With
# a read for each, hundreds of agents whose store was late for a moment kept it late. A store is
# restored while it is down, which ends all streams: all that was seen on one stream is of one
# history, and what was seen there last is proof of all before it.

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from aetcd import rpc

from core.errors import StoreUnavailable
from objdb.etcd.channel import Channels
from objdb.etcd.grpc_errors import is_out_of_range

_DELETE: Final = rpc.Event.DELETE


class HistoryLost(Exception):
    """The history from which a watch was to resume is not there."""


class Compacted(HistoryLost):
    """It has been compacted, or nothing is known by which to recognise it."""


class Rewound(HistoryLost):
    """The store has another history."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A key as it was at a revision: its value and its own revision, None if it was deleted."""

    key: bytes
    rev: int
    entry: tuple[bytes, int] | None

    @classmethod
    def of_event(cls, event: Any) -> "Evidence":
        """Return what the last event of a revision shows."""
        kv = event.kv
        entry = None if event.type == _DELETE else (kv.value, kv.mod_revision)
        return cls(kv.key, kv.mod_revision, entry)


class StreamSeen:
    """What the watches of one stream saw last, and how often that was looked for in the store."""

    def __init__(self) -> None:
        self.last: Evidence | None = None
        self.looking = asyncio.Lock()
        self.begun = 0
        self.found = 0
        """The number of the last look that found it."""

    def note(self, evidence: Evidence | None) -> None:
        """Keep what is newer than all before."""
        if evidence is not None and (self.last is None or self.last.rev < evidence.rev):
            self.last = evidence


@dataclass(slots=True)
class WatchPosition:
    """How far a watch has come in a history: a revision, and a key as it was by then.

    `cluster` is the store's id, 0 if unknown; `seen` is of the stream that the watch is or was on,
    None before its first.
    """

    rev: int
    cluster: int = 0
    evidence: Evidence | None = None
    seen: StreamSeen | None = field(default=None, compare=False)

    def on(self, seen: StreamSeen) -> None:
        """Note that the history of the position is that of a stream."""
        if self.seen is not seen:
            seen.note(self.evidence)
            if self.seen is not None:
                seen.note(self.seen.last)
            self.seen = seen

    def went_on(self, event: Any) -> None:
        """Move to the last event of a revision."""
        self.rev, self.evidence = event.kv.mod_revision, Evidence.of_event(event)
        if self.seen is not None:
            self.seen.note(self.evidence)


def looks_rewound(header: Any, at: WatchPosition) -> bool:
    """Return whether a member's answer is from before a position, or from another cluster."""
    return bool(header.revision < at.rev or (at.cluster and header.cluster_id != at.cluster))


class HistoryReader:
    """Looks for positions in the history of a cluster."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def verify(self, key: bytes, at: WatchPosition, *, opened_again: bool) -> None:
        """Raise HistoryLost unless the store certainly has the history of a position.

        `key` is any that the watch may read. Raises StoreUnavailable.
        """
        seen = at.seen
        if seen is not None and seen.last is not None and seen.last.rev >= at.rev:
            await self._verify_seen(seen, at.cluster)
        elif at.evidence is not None:
            await self._find(at.evidence, at.rev, at.cluster)
        elif opened_again:
            raise Compacted
        else:
            # A response of a member that only lags behind is no reason to give up.
            await self._read_at(key, at.rev, at.cluster)

    async def _verify_seen(self, seen: StreamSeen, cluster: int) -> None:
        """Verify the revisions last seen by a stream's watches, unless a newer check started."""
        begun = seen.begun
        async with seen.looking:
            if seen.found > begun or seen.last is None:
                return
            seen.begun += 1
            number = seen.begun
            await self._find(seen.last, seen.last.rev, cluster)
            seen.found = number

    async def _find(self, evidence: Evidence, rev: int, cluster: int) -> None:
        """Raise HistoryLost unless a key is as it was, at a revision since when it is."""
        now = await self._read_at(evidence.key, rev, cluster)
        if now != evidence.entry:
            raise Rewound
        if now is None and await self._read_at(evidence.key, rev - 1, cluster) is None:
            raise Rewound

    async def _read_at(self, key: bytes, rev: int, cluster: int) -> tuple[bytes, int] | None:
        """Return a key's value and revision as of a revision; linearizable."""
        request = rpc.RangeRequest(key=key, revision=rev)
        try:
            answer = await self._channels.call(lambda member: member.kv.Range, request)
        except StoreUnavailable as exc:
            if is_out_of_range(exc.__cause__):
                raise (Rewound if "future" in str(exc) else Compacted) from exc
            raise
        if cluster and answer.header.cluster_id != cluster:
            raise Rewound
        return (answer.kvs[0].value, answer.kvs[0].mod_revision) if answer.kvs else None
