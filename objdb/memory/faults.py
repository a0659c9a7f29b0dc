"""The faults that a test can inject into one client of the memory store."""

# Each fault is something that etcd or consul really does, and a rule of `objdb.api` that callers
# must not rely on more than promised: an outcome may be unknown, a fence may be lost at any moment,
# a watch may merge deltas (consul always does, etcd after a reconnect), and a put of the same value
# may produce no delta.

import asyncio
from collections import deque
from dataclasses import dataclass, field
from enum import Enum


class LostAnswer(Enum):
    """What happened to a commit without an answer.

    DELIVERED: this commit is answered; it precedes one that is not.
    """

    DELIVERED = "delivered"
    APPLIED = "applied"
    NOT_APPLIED = "not applied"


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True)
class Faults:
    """May be changed at any time; applies to the next call or delta."""

    reachable: asyncio.Event = field(default_factory=_set)
    """While cleared, calls raise StoreUnavailable without effect; watches deliver nothing."""

    refuse_fences: bool = False
    """Fenced commits raise FenceLost."""

    lost_answers: deque[LostAnswer] = field(default_factory=deque)
    """Each commit consumes one, then raises StoreUnavailable(outcome_unknown=True)."""

    coalesce: bool = False
    """A watch merges the deltas that its reader has not taken yet."""

    silent_rewrites: bool = False
    """A put of the current value produces no delta."""

    full: bool = False
    """The store says that it takes no puts."""

    delay: float = 0.0
    """Seconds before each call is served and before each delta is delivered."""
