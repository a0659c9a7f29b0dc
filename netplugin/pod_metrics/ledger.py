"""Keeps account of each pod of this host, and of each group: traffic and dropped packets. Pure.

In come the counters of links at some moment, and packets that were dropped; out go accounts. That
of a pod goes with it. That of its group keeps what the pod had, so that no account goes back.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import add, sub
from typing import Final, NamedTuple

from core.ids import EndpointKey
from state.flow_records import EndNames

HALF_LIFE: Final = 600.0
"""Seconds after which traffic counts half for what pods are named."""


class Direction(StrEnum):
    """Which way packets went, as the pod sees it."""

    RECEIVED = "received"
    SENT = "sent"


class PodTraffic(NamedTuple):
    """Bytes and packets of both directions."""

    received_bytes: int = 0
    received_packets: int = 0
    sent_bytes: int = 0
    sent_packets: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of both directions together."""
        return self.received_bytes + self.sent_bytes


NOTHING: Final = PodTraffic()


class DropKind(NamedTuple):
    """A kind of dropped packets: those that the pod sent, or that were for it, and why."""

    direction: Direction
    reason: str


class Group(NamedTuple):
    """What pods are added up by; `group` is "" for those of none."""

    tenant: str
    network: str
    group: str


@dataclass(slots=True)
class Account:
    """What was counted of a pod or of a group."""

    traffic: PodTraffic = NOTHING
    drops: Counter[DropKind] = field(default_factory=Counter)


@dataclass(slots=True)
class PodAccount(Account):
    """The account of a pod, under its names of now; `links` are the host's ends of its links."""

    names: EndNames = field(default_factory=EndNames)
    links: tuple[str, ...] = ()
    score: float = 0.0
    """Its bytes, those of earlier counting less."""
    reported: Counter[DropKind] = field(default_factory=Counter)
    counted: Counter[DropKind] = field(default_factory=Counter)

    @property
    def group(self) -> Group:
        """What it is added up with."""
        return Group(self.names.tenant, self.names.network, self.names.group)


@dataclass(frozen=True, slots=True)
class PresentPod:
    """A pod that is there now: its names, and the host's ends of its links."""

    names: EndNames
    links: tuple[str, ...]


class Ledger:
    """The accounts of one host, from 0 on; what links had at the beginning is not counted."""

    def __init__(self, links: Mapping[str, PodTraffic], now: float) -> None:
        self._links = links
        self._began = dict(links)
        self._now = now
        self.pods: dict[EndpointKey, PodAccount] = {}
        self.groups: dict[Group, Account] = {}

    def take(
        self, present: Mapping[EndpointKey, PresentPod], links: Mapping[str, PodTraffic], now: float
    ) -> None:
        """Take over the pods and the counters of all links of a moment, on a monotonic clock.

        A pod that is not there any more goes, once it has what its links have counted to the last.
        """
        before, self._links = self._links, links
        fading = 0.5 ** ((now - self._now) / HALF_LIFE)
        self._now = now
        for key, pod in present.items():
            self._known(key, pod)
        for key, account in list(self.pods.items()):
            account.score *= fading
            group = self._group(account.group)
            for link in account.links:
                counted, old = links.get(link), before.get(link)
                if counted is not None and counted != old:
                    grown = _growth(old, counted)
                    account.score += grown.bytes
                    account.traffic = _plus(account.traffic, grown)
                    group.traffic = _plus(group.traffic, grown)
            if key not in present:
                del self.pods[key]

    def report(self, key: EndpointKey, pod: PresentPod, drop: DropKind, packets: int) -> None:
        """Take note of dropped packets of a pod, each of which was told."""
        account = self._known(key, pod)
        account.reported[drop] += packets
        self._raise(account, drop)

    def count(self, key: EndpointKey, pod: PresentPod, drop: DropKind, packets: int) -> None:
        """Take note of what a counter of the switch says was dropped.

        That may be of the packets that are told too: the greater number of both is right, for
        there are counters that begin anew, and packets that nobody is told of.
        """
        account = self._known(key, pod)
        account.counted[drop] += packets
        self._raise(account, drop)

    def named(self, most: int) -> list[PodAccount]:
        """Return the accounts of the pods with most traffic of late."""
        if most >= len(self.pods):
            return list(self.pods.values())
        chosen = heapq.nlargest(most, self.pods.items(), key=lambda one: (one[1].score, one[0]))
        return [account for _, account in chosen]

    def forget(self, exists: Callable[[Group], bool]) -> None:
        """Forget the groups that have no pod here and do not exist any more."""
        alive = {account.group for account in self.pods.values()}
        for group in self.groups.keys() - alive:
            if not exists(group):
                del self.groups[group]

    def _known(self, key: EndpointKey, pod: PresentPod) -> PodAccount:
        account = self.pods.get(key)
        if account is None:
            # of those that an earlier agent has made, whoever had most before comes first
            had = sum(self._began.pop(one, NOTHING).bytes for one in pod.links)
            account = self.pods[key] = PodAccount(score=float(had))
        account.names, account.links = pod.names, pod.links
        return account

    def _group(self, group: Group) -> Account:
        return self.groups.setdefault(group, Account())

    def _raise(self, account: PodAccount, drop: DropKind) -> None:
        dropped = max(account.reported[drop], account.counted[drop])
        grown = dropped - account.drops[drop]
        if grown:
            account.drops[drop] = dropped
            self._group(account.group).drops[drop] += grown


def _growth(before: PodTraffic | None, now: PodTraffic) -> PodTraffic:
    """Return what a link has counted between two moments; one that was made anew begins at 0."""
    if before is None:
        return now
    grown = PodTraffic(*map(sub, now, before))
    return now if min(grown) < 0 else grown


def _plus(one: PodTraffic, other: PodTraffic) -> PodTraffic:
    return PodTraffic(*map(add, one, other))
