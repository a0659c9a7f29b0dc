"""A flow: a table's entry as a frozen value that knows its bytes, its cookie and its text.

Two flows are the same exactly if their cookies are: the cookie is a digest of the content, so the
switch's report of (table, cookie) says everything a comparison needs (`ofnet.diff`).
"""

import struct
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from ofnet.changes import ObjectKind
from ofnet.openflow.actions import Instructions
from ofnet.openflow.match import Match
from ofnet.tables import TABLES, TableId

COOKIE_MAGIC: Final = 0xC0

_CONTENT_HEAD: Final = struct.Struct(">BH")


def owner_of(cookie: int) -> int | None:
    """Return the kind of object that owns a flow of ours, None for a foreign one."""
    return cookie >> 48 & 0xFF if cookie >> 56 == COOKIE_MAGIC else None


class FlowKey(NamedTuple):
    """What OpenFlow calls the same flow: adding under an existing key replaces its instructions."""

    table: TableId
    priority: int
    match: bytes


class Undeclared(ValueError):
    """A flow matches, does, writes or goes to something its table does not declare."""


class _Content(NamedTuple):
    owner: ObjectKind
    table: TableId
    priority: int
    match: Match
    instructions: Instructions
    key: FlowKey
    wire: bytes
    """The match and the instructions as a flow-mod carries them."""

    cookie: int
    """64 bits: 0xC0, the owner's kind, 48 bits of blake2b over all the rest."""


class Flow(_Content):
    """One flow. Raises Undeclared on building what `ofnet.tables` does not allow.

    A tuple, since a host that starts makes tens of thousands of them: a frozen dataclass takes
    half as long again to build.
    """

    __slots__ = ()

    def __new__(
        cls,
        owner: ObjectKind,
        table: TableId,
        priority: int,
        match: Match,
        instructions: Instructions,
    ) -> Self:
        """Check the flow against its table's declaration, pack it and sign it."""
        _check(table, match, instructions)
        wire = match.wire + instructions.wire
        digest = blake2b(_CONTENT_HEAD.pack(table, priority) + wire, digest_size=6).digest()
        cookie = COOKIE_MAGIC << 56 | owner << 48 | int.from_bytes(digest, "big")
        key = FlowKey(table, priority, match.wire)
        content = (owner, table, priority, match, instructions, key, wire, cookie)
        return tuple.__new__(cls, content)

    def __str__(self) -> str:
        """Return the line `ovs-ofctl --no-stats dump-flows` prints, without the cookie."""
        table = f"table={self.table:d}, " if self.table else ""
        match = f",{self.match}" if self.match.fields else ""
        return f"{table}priority={self.priority:d}{match} actions={self.instructions}"


def _check(table: TableId, match: Match, instructions: Instructions) -> None:
    declared = TABLES[table]
    if not match.names <= declared.matches:
        raise Undeclared(f"table {table:d} does not match {match}")
    if not instructions.names <= declared.actions:
        raise Undeclared(f"table {table:d} does not do {instructions}")
    metadata, following = instructions.metadata, instructions.goto
    if metadata is not None and metadata.mask & ~declared.writes:
        raise Undeclared(f"table {table:d} does not write metadata {metadata}")
    if following is not None and following not in declared.next:
        raise Undeclared(f"table {table:d} does not go to table {following:d}")
