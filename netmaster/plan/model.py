"""What a decision is made of: the writes it wants, and the reply to give once they are committed.

Plans are made by the modules of this package, applied by `netmaster.view` and committed by
`netmaster.commit`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from contivmodel.objects import RestObject
from core import ids, keys
from core.ids import DocknetId, GroupName, HostLabel, NetworkName, TenantName
from state.records import Record
from state.schema import SchemaStamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from netmaster.view import View


@dataclass(frozen=True, slots=True)
class GroupIdCursor:
    """The last group id given."""

    last: int


class Category(StrEnum):
    """By what the endpoints of a clean-up are named."""

    NETWORK = "net"
    GROUP = "group"
    ENDPOINT = "ep"
    HOST = "host"


ANY_TENANT: Final = TenantName("-")
"""Stands for all tenants in a clean-up; no tenant can have this name."""


@dataclass(frozen=True, slots=True)
class EndpointCleanup:
    """A clean-up under way: all endpoints of a network, group, container or host are to go.

    Those that came later, with grants from `before` on, stay.
    """

    tenant: TenantName
    category: Category
    name: str
    before: int


@dataclass(frozen=True, slots=True)
class Absence:
    """A host whose agent is not registered, since a time on the wall clock.

    `rev` is the revision of its record then: an agent that starts writes its record anew.
    """

    label: HostLabel
    since: float
    rev: int


@dataclass(frozen=True, slots=True)
class Drain:
    """A host that gets no new endpoints, since a time on the wall clock."""

    label: HostLabel
    since: float


@dataclass(frozen=True, slots=True)
class PendingLaunch:
    """A doubt: the ACI gateway may hold something else of an application profile than the store.

    `profile` is the profile's key.
    """

    profile: str

    @property
    def key(self) -> str:
        """The key it is stored at."""
        return keys.aci_launch(self.profile)


@dataclass(frozen=True, slots=True)
class PendingDocknet:
    """A doubt: docker may hold something else of a network, or of a group of it, than the store."""

    tenant: TenantName
    network: NetworkName
    group: GroupName | None

    @property
    def id(self) -> DocknetId:
        """The id of the record that docker's network has, where it has one."""
        return ids.docknet_id(self.tenant, self.network, self.group)

    @property
    def key(self) -> str:
        """The key it is stored at."""
        return keys.docknet_doubt(self.id)


PendingEffect = PendingLaunch | PendingDocknet
"""Of what somebody outside may hold something else than the store."""

Stored = (
    Record
    | RestObject
    | GroupIdCursor
    | EndpointCleanup
    | Absence
    | Drain
    | PendingEffect
    | SchemaStamp
    | bytes
)
"""What a key can hold; bytes are values nobody here reads back."""


@dataclass(frozen=True, slots=True)
class Write:
    """One key to put, or to delete if `record` is None.

    The decision rests on what the key held: nothing if `new`, else what was committed last. To
    delete what is `new` changes nothing, and sees to it that nobody has put it there meanwhile. Of
    a key that is not the leader's the decision rests on the revision `rev`.
    """

    key: str
    record: Stored | None
    new: bool
    rev: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Writes that go together, and the reply they lead to. Without writes nothing changes.

    `then` is for a change that may be too large for one transaction: these writes hold what is
    wanted, and `then` decides the next part of what follows from it, given the view; it is asked
    before the reply is given. `netmaster.leadership` has what a failure left undone done later.
    """

    writes: tuple[Write, ...]
    reply: object
    then: "Callable[[View], Plan] | None" = None
