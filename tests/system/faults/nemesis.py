"""What befalls a cluster: faults of a seeded plan, each begun, borne for a while, and healed.

In come a source of chance and a cluster; `plan` is pure, and every kind of fault is in it. At most
one fault of a round touches the store, so that its majority stays, but for the round that takes it
away. Whether anybody was wronged is `tests.system.faults.checker`'s business.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random
from typing import Final

from tests.bed.daemon import Daemon
from tests.system.faults.cluster import LEASE, NODES, FaultyCluster


class Kind(StrEnum):
    """What may happen."""

    KILL_LEADER = "the leader is killed"
    KILL_MASTER = "a master is killed"
    END_LEADER = "the leader is told to end"
    FREEZE_LEADER = "the leader is stopped for twice its lease"
    FREEZE_MASTER = "a master is stopped for a while"
    KILL_MEMBER = "a member of the store is killed"
    FREEZE_MEMBER = "a member of the store is stopped"
    CUT_LEADER = "the leader's node is cut off"
    CUT_NODE = "a node is cut off"
    LOSE_MAJORITY = "the store's majority is killed"


OF_MASTERS: Final = (
    Kind.KILL_LEADER,
    Kind.FREEZE_LEADER,
    Kind.END_LEADER,
    Kind.KILL_MASTER,
    Kind.FREEZE_MASTER,
)
OF_STORE: Final = (
    Kind.KILL_MEMBER,
    Kind.CUT_LEADER,
    Kind.FREEZE_MEMBER,
    Kind.CUT_NODE,
    Kind.KILL_MEMBER,
)
TO_THE_LEADER: Final = frozenset(
    {Kind.KILL_LEADER, Kind.END_LEADER, Kind.FREEZE_LEADER, Kind.CUT_LEADER}
)
BORNE: Final = {Kind.FREEZE_LEADER: (2.0 * LEASE, 2.2 * LEASE), Kind.CUT_LEADER: (1.0, 2.0 * LEASE)}
"""Between how many seconds a fault lasts, where that is of its essence."""
BORNE_BY_OTHERS: Final = (0.1, 1.5)
WAIT: Final = 0.5
"""Seconds, at most, before the next fault of a round begins."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: whom it meets if not the leader, after what wait, and how long it lasts."""

    kind: Kind
    place: int
    wait: float
    lasts: float

    def __str__(self) -> str:
        return f"{self.kind} ({self.place}) after {self.wait:.2f} s, for {self.lasts:.2f} s"


Round = tuple[Fault, ...]


def plan(chance: Random) -> list[Round]:
    """Return rounds of faults, in which each kind occurs."""
    of_masters, of_store = list(OF_MASTERS), list(OF_STORE)
    chance.shuffle(of_masters)
    chance.shuffle(of_store)
    rounds = [
        tuple(_fault(kind, chance) for kind in chance.sample(pair, len(pair)))
        for pair in zip(of_masters, of_store, strict=True)
    ]
    rounds.append((_fault(Kind.LOSE_MAJORITY, chance),))
    chance.shuffle(rounds)
    return rounds


def _fault(kind: Kind, chance: Random) -> Fault:
    lasts = chance.uniform(*BORNE.get(kind, BORNE_BY_OTHERS))
    return Fault(kind, chance.randrange(NODES), chance.uniform(0, WAIT), lasts)


class Nemesis:
    """Does to a cluster what a plan says; `began` tells what was done."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self.began: list[Kind] = []
        self._cluster = cluster

    def perform(self, faults: Round) -> None:
        """Begin all faults of a round, and heal each when its time is over."""
        with ExitStack() as healing:
            ends: list[tuple[float, Callable[[], None]]] = []
            for fault in faults:
                time.sleep(fault.wait)
                heal = _once(self._begin(fault))
                healing.callback(heal)
                ends.append((time.monotonic() + fault.lasts, heal))
            for end, due in sorted(ends, key=lambda one: one[0]):
                time.sleep(max(0.0, end - time.monotonic()))
                due()

    def _begin(self, fault: Fault) -> Callable[[], object]:
        """Begin a fault; return what heals it."""
        place = fault.place
        if fault.kind in TO_THE_LEADER:
            leader = self._cluster.leader()
            place = place if leader is None else leader
        self.began.append(fault.kind)
        return self._harmed(fault.kind, place)

    def _harmed(self, kind: Kind, place: int) -> Callable[[], object]:
        master, link = self._cluster.masters[place], self._cluster.nodes[place].link
        servers = self._cluster.store.servers
        server = servers[place % len(servers)]
        heal: Callable[[], object]
        match kind:
            case Kind.KILL_LEADER | Kind.KILL_MASTER:
                heal = _killed(master)
            case Kind.END_LEADER:
                heal = _ended(master)
            case Kind.FREEZE_LEADER | Kind.FREEZE_MASTER:
                heal = _frozen(master)
            case Kind.KILL_MEMBER:
                heal = _killed(server)
            case Kind.FREEZE_MEMBER:
                heal = _frozen(server)
            case Kind.CUT_LEADER | Kind.CUT_NODE:
                self._cluster.fabric.cut(link)
                heal = partial(self._cluster.fabric.heal, link)
            case Kind.LOSE_MAJORITY:
                heal = self._majority_lost(place)
        return heal

    def _majority_lost(self, place: int) -> Callable[[], object]:
        store = self._cluster.store
        first = place % len(store.servers)
        order = [*store.servers[first:], *store.servers[:first]]
        healing = [_killed(server) for server in order[: len(order) - store.needed + 1]]
        return lambda: [heal() for heal in healing]


def _killed(daemon: Daemon) -> Callable[[], None]:
    daemon.kill()
    return daemon.spawn


def _ended(daemon: Daemon) -> Callable[[], None]:
    status = daemon.terminate()
    assert status == 0, f"{daemon.name} ended with {status} when it was told to end"
    return daemon.spawn


def _frozen(daemon: Daemon) -> Callable[[], None]:
    daemon.pause()
    return daemon.resume


def _once(heal: Callable[[], object]) -> Callable[[], None]:
    """Return what heals at its first call, and then does nothing."""
    left = [heal]

    def call() -> None:
        while left:
            left.pop()()

    return call
