"""What a translation has so far: our records and objects, and the findings on the way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from contivmodel.kinds import KINDS
from contivmodel.objects import RestObject
from core import keys
from core.collections.bitset import BitSet
from core.errors import Invalid
from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId, ServiceKey
from netmaster.takeover.findings import TakeoverFinding, TakeoverOutcome, refused
from state.records import (
    BgpRecord,
    DocknetRecord,
    EndpointRecord,
    GlobalRecord,
    GrantRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    ServiceRecord,
    TagRangesRecord,
)

Found = TypeVar("Found")


@dataclass(slots=True)
class Draft:
    """`marked` are the original's allocation maps, of networks and of groups with a pool."""

    objects: dict[str, dict[str, RestObject]] = field(
        default_factory=lambda: {kind: {} for kind in KINDS}
    )
    settings: GlobalRecord | None = None
    ranges: TagRangesRecord | None = None
    networks: dict[NetworkId, NetworkRecord] = field(default_factory=dict)
    groups: dict[GroupKey, GroupRecord] = field(default_factory=dict)
    endpoints: dict[EndpointKey, EndpointRecord] = field(default_factory=dict)
    services: dict[ServiceKey, ServiceRecord] = field(default_factory=dict)
    bgps: dict[str, BgpRecord] = field(default_factory=dict)
    docknets: dict[str, DocknetRecord] = field(default_factory=dict)
    grants: dict[str, GrantRecord] = field(default_factory=dict)
    hosts: dict[HostLabel, HostRecord] = field(default_factory=dict)
    marked: dict[NetworkId | GroupKey, BitSet] = field(default_factory=dict)
    findings: list[TakeoverFinding] = field(default_factory=list)

    def change(self, key: str, text: str) -> None:
        """Note that a key is taken over with a change."""
        self.findings.append(TakeoverFinding(TakeoverOutcome.CHANGED, key, text))

    def leave_out(self, key: str, text: str) -> None:
        """Note that a key is not taken over."""
        self.findings.append(TakeoverFinding(TakeoverOutcome.LEFT_OUT, key, text))

    def note(self, key: str, text: str) -> None:
        """Note what an administrator should know."""
        self.findings.append(TakeoverFinding(TakeoverOutcome.NOTE, key, text))

    def refuse(self, key: str, text: str, remedy: str = "") -> None:
        """Note what makes the translation impossible; to leave the key out is always a remedy."""
        self.findings.append(refused(key, text, remedy))

    def decoded(self, key: str, decode: Callable[[], Found]) -> Found | None:
        """Return what a decoder returns, or None, with a refusal, for what it cannot decode."""
        try:
            return decode()
        except Invalid as exc:
            self.refuse(key, str(exc), "correct it")
        except ValueError as exc:
            self.refuse(key, f"malformed: {exc}", "correct it")
        return None

    def stored(self) -> Iterator[tuple[str, RestObject]]:
        """Yield all REST objects with their keys in the store."""
        for kind, objects in self.objects.items():
            for key, one in objects.items():
                yield keys.obj(kind, key), one
