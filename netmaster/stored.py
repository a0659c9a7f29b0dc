"""What the leader stores beside state records and REST objects, and a write of any of them. Pure.

The lowest module of netmaster: `netmaster.codec` encodes these types, `netmaster.view` indexes
them, and plans (`netmaster.plan.model`) are made of `Write`s.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contivmodel.objects import RestObject
from core import ids, keys
from core.ids import DocknetId, GroupName, HostLabel, NetworkName, TenantName
from state.lineage import Lineage
from state.records import Record
from state.schema import SchemaStamp


@dataclass(frozen=True, slots=True)
class GroupIdCursor:
    """The last endpoint group id that was allocated."""

    last: int


class CleanupCategory(StrEnum):
    """What kind of name selects the endpoints of a clean-up."""

    NETWORK = "net"
    GROUP = "group"
    ENDPOINT = "ep"
    HOST = "host"


ANY_TENANT: Final = TenantName("-")
"""Stands for all tenants in a clean-up; no tenant can have this name."""


@dataclass(frozen=True, slots=True)
class EndpointCleanup:
    """A clean-up in progress: removes all endpoints of a network, group, container or host.

    It covers endpoints whose grant has a sequence number below `before`; later ones stay.
    """

    tenant: TenantName
    category: CleanupCategory
    name: str
    before: int


@dataclass(frozen=True, slots=True)
class HostAbsence:
    """A host whose agent is not registered.

    `since` is the wall-clock time of the leader that found it absent, for people only. `seconds` is
    how long leaders have seen it absent, each by its own monotonic clock; the leader stores them
    from time to time. `rev` is the revision of the host's record when it was found absent. An agent
    writes its record anew at each start, so another revision proves that the agent was back. So
    does another `renewal` of its address blocks (`BlockLease.renewal`).
    """

    label: HostLabel
    since: float
    rev: int
    seconds: float = 0.0
    renewal: str = ""


@dataclass(frozen=True, slots=True)
class HostDrain:
    """A host that accepts no new endpoints; `since` is wall-clock time in seconds."""

    label: HostLabel
    since: float


@dataclass(frozen=True, slots=True)
class BlockLease:
    """The lease under which a host holds addresses ahead of its pods (ADR 29).

    `lease` is a random id, `number` counts the requests that were carried out under it. The host
    was promised `seconds` from the last of them.
    """

    label: HostLabel
    lease: str
    number: int
    seconds: float

    @property
    def renewal(self) -> str:
        """The renewal that this is, unlike any other of the host."""
        return f"{self.lease}/{self.number}"

    @property
    def token(self) -> str:
        """The owner's id in grants of this renewal."""
        return f"{self.label}/{self.renewal}"

    def has(self, token: str) -> bool:
        """Tell whether a grant was made under this lease, by its token."""
        return token.rpartition("/")[0] == f"{self.label}/{self.lease}"


@dataclass(frozen=True, slots=True)
class PendingProfile:
    """An application profile whose state in the ACI gateway may differ from the store.

    `profile` is the profile's key.
    """

    profile: str

    @property
    def key(self) -> str:
        """The key it is stored at."""
        return keys.aci_launch(self.profile)


@dataclass(frozen=True, slots=True)
class PendingDockerNetwork:
    """A network, or a group of it, whose Docker network may differ from the store."""

    tenant: TenantName
    network: NetworkName
    group: GroupName | None

    @property
    def id(self) -> DocknetId:
        """The id of the record of the Docker network, where it has one."""
        return ids.docknet_id(self.tenant, self.network, self.group)

    @property
    def key(self) -> str:
        """The key it is stored at."""
        return keys.docknet_doubt(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """The answer to a change that a client may send again with the same idempotency key.

    `digest` stands for the client and its key, `request` for what it asked. `status`, the object's
    `key`, `etag` and `body` are those of the answer. `at` is the wall-clock time of the change.
    `client` stands for the client alone, "" where clients are not known, and in older records.
    """

    digest: str
    request: str
    status: int
    key: str
    etag: str
    body: str
    at: float
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedObject:
    """An object that a change created, updated or deleted, by its class and key.

    `fields` are those that differ: the name, and JSON of the value before and after, each cut to
    a bounded length.
    """

    plural: str
    key: str
    action: str
    fields: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRecord:
    """A change that a client made, kept in a ring: what it did to objects, when, who, from where.

    `number` counts all changes of the cluster. `who` is "" where clients are not known; `at` is
    wall-clock time. `omitted` objects are not named, for there were too many.
    """

    number: int
    at: float
    who: str
    address: str
    objects: tuple[ChangedObject, ...]
    omitted: int = 0


PendingEffect = PendingProfile | PendingDockerNetwork
"""External objects whose state may differ from the store."""

Stored = (
    Record
    | RestObject
    | GroupIdCursor
    | EndpointCleanup
    | HostAbsence
    | HostDrain
    | BlockLease
    | PendingEffect
    | KeptAnswer
    | ChangeRecord
    | SchemaStamp
    | Lineage
    | bytes
)
"""What a key can hold; bytes are values that netmaster writes and never reads back."""


@dataclass(frozen=True, slots=True)
class Write:
    """One key to put, or to delete if `record` is None, under a precondition.

    The precondition is what the decision was based on: that the key does not exist if `new`, else
    that it is at the revision committed last. Deleting a key that is `new` changes nothing, and
    makes the transaction fail if the key was created meanwhile. For a key that other processes
    write the precondition is the revision `rev`.
    """

    key: str
    record: Stored | None
    new: bool
    rev: int | None = None
