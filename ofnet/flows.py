"""A flow: a table's entry as a frozen value with its bytes, its cookie and its text.

The cookie is a digest of the content: two flows are equal exactly if their cookies are. A dump of
(table, cookie) is therefore enough for a comparison (`ofnet.diff`). Pure.
"""

import struct
from typing import Final, NamedTuple, NewType, Self

from ofnet.changes import ObjectKind
from ofnet.digests import cookie_digest
from ofnet.openflow.actions import Action, Conntrack, Instructions, Learn, Load, Lookup, SelectGroup
from ofnet.openflow.match import Match
from ofnet.openflow.meters import Meter
from ofnet.tables import TABLES, TableId

COOKIE_MAGIC: Final = 0xC0

_KEY_HEAD: Final = struct.Struct(">BH")
_MAGIC: Final = COOKIE_MAGIC << 56
_new: Final = tuple.__new__


def cookie_of_kind(kind: ObjectKind) -> int:
    """Return the cookie of flows that a switch learns itself, for objects of a kind."""
    return _MAGIC | kind << 48


def owner_of(cookie: int) -> int | None:
    """Return the kind of object that owns a flow; None for a flow this agent did not make."""
    return cookie >> 48 & 0xFF if cookie >> 56 == COOKIE_MAGIC else None


FlowKey = NewType("FlowKey", bytes)
"""A flow's identity in OpenFlow: its table, priority and match, packed.

Adding under an existing key replaces the instructions.
"""


def table_of(key: FlowKey) -> int:
    """Return the table of a flow with this key."""
    return key[0]


def priority_of(key: FlowKey) -> int:
    """Return the priority of a flow with this key."""
    return key[1] << 8 | key[2]


class UndeclaredFlow(ValueError):
    """A flow has a match, an action, a write or a next table that its table does not declare."""


class _Content(NamedTuple):
    owner: ObjectKind
    table: TableId
    priority: int
    match: Match
    instructions: Instructions
    key: FlowKey
    cookie: int
    """64 bits: 0xC0, the owner's kind, 48 bits of a digest of all before it."""


class Flow(_Content):
    """One flow. Raises UndeclaredFlow on building what `ofnet.tables` does not declare."""

    # A tuple, because an agent that starts makes tens of thousands of flows, and a frozen dataclass
    # takes half as long again to build.
    #
    # The cookie covers content and owner. So a flow that changes in any way gets another cookie: an
    # old flow is deleted by its stamp without touching its successor, and a comparison needs no
    # decoding of matches and actions. The owner's kind stands outside the digest, in clear, because
    # some flows must be found by it in a dump: routes of BGP and clients of services.

    __slots__ = ()

    def __new__(
        cls,
        owner: ObjectKind,
        table: TableId,
        priority: int,
        match: Match,
        instructions: Instructions,
    ) -> Self:
        """Check the flow against its table's declaration, pack it and compute its cookie."""
        _check(table, match, instructions)
        key = FlowKey(_KEY_HEAD.pack(table, priority) + match.wire)
        cookie = _MAGIC | owner << 48 | cookie_digest(key + instructions.content)
        return _new(cls, (owner, table, priority, match, instructions, key, cookie))

    @property
    def wire(self) -> bytes:
        """The match and the instructions as a flow-mod carries them."""
        return self.match.wire + self.instructions.wire

    @property
    def group(self) -> SelectGroup | None:
        """The group that must be there before the flow."""
        return self.instructions.group

    def with_group(self, group: SelectGroup) -> "Flow":
        """Return the flow that uses another group."""
        actions, metadata, goto, meter, *_ = self.instructions
        instructions = Instructions((*actions[:-1], group), metadata, goto, meter)
        return Flow(self.owner, self.table, self.priority, self.match, instructions)

    @property
    def meters(self) -> tuple[Meter, ...]:
        """The meters that must be there before the flow."""
        return self.instructions.meters

    @property
    def packed(self) -> "PackedFlow":
        """The flow as bytes. Only for one without group and meters."""
        return _new(PackedFlow, (self.key, self.cookie, self.instructions.wire))

    def __str__(self) -> str:
        """Return the line `ovs-ofctl --no-stats dump-flows` prints, without the cookie."""
        table = f"table={self.table:d}, " if self.table else ""
        match = f",{self.match}" if self.match.fields else ""
        return f"{table}priority={self.priority:d}{match} actions={self.instructions}"


class PackedFlow(NamedTuple):
    """A flow without group and meters as the bytes that a switch gets."""

    key: FlowKey
    cookie: int
    instructions_wire: bytes

    @property
    def table(self) -> int:
        """Its table."""
        return table_of(self.key)

    @property
    def priority(self) -> int:
        """Its priority."""
        return priority_of(self.key)

    @property
    def owner(self) -> int | None:
        """The kind of object that it is made for."""
        return owner_of(self.cookie)

    @property
    def wire(self) -> bytes:
        """The match and the instructions as a flow-mod carries them."""
        return self.key[_KEY_HEAD.size :] + self.instructions_wire

    @property
    def group(self) -> None:
        """No group."""
        return

    @property
    def meters(self) -> tuple[Meter, ...]:
        """No meters."""
        return ()


AnyFlow = Flow | PackedFlow
"""A flow as far as a comparison and a switch need it."""

_CHECKED: Final = frozenset({Conntrack.name, Lookup.name, Learn.name, Load.name, SelectGroup.name})
"""The actions whose arguments the table must declare as well, or those of their buckets."""


def _check(table: TableId, match: Match, instructions: Instructions) -> None:
    declared = TABLES[table]
    if not match.names <= declared.matches:
        raise UndeclaredFlow(f"table {table:d} does not match {match}")
    if not instructions.names <= declared.actions:
        raise UndeclaredFlow(f"table {table:d} does not do {instructions}")
    metadata, following = instructions.metadata, instructions.goto
    if metadata is not None and metadata.mask & ~declared.writes:
        raise UndeclaredFlow(f"table {table:d} does not write metadata {metadata}")
    if following is not None and following not in declared.next:
        raise UndeclaredFlow(f"table {table:d} does not go to table {following:d}")
    if instructions.names.isdisjoint(_CHECKED):
        return
    for action in _all_actions(instructions):
        match action:
            case Conntrack() | Lookup() | Learn() if action.table not in declared.resumes:
                # a bucket's actions go on from the table of the flow that uses the group
                raise UndeclaredFlow(f"table {table:d} does not {action}")
            case Load() if action.field.mask & ~declared.writes:
                raise UndeclaredFlow(f"table {table:d} does not {action}")
            case _:
                pass


def _all_actions(instructions: Instructions) -> tuple[Action, ...]:
    """Return the actions of a flow, and those of the buckets of its group."""
    group = instructions.group
    if group is None:
        return instructions.actions
    return (*instructions.actions, *(one for each in group.buckets for one in each.actions))
