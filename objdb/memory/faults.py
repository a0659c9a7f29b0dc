"""What a test may ask the memory store to do to one of its clients."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from enum import Enum


class LostAnswer(Enum):
    """What became of a commit whose outcome its sender never learns.

    DELIVERED stands for a commit that is answered, before one that is not.
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
    """May be changed at any time; the next call or delta feels it."""

    reachable: asyncio.Event = field(default_factory=_set)
    """While cleared, calls raise StoreUnavailable and change nothing; watches are silent."""

    refuse_fences: bool = False
    """Fenced commits raise FenceLost."""

    lost_answers: deque[LostAnswer] = field(default_factory=deque)
    """One is taken by each commit, which then raises StoreUnavailable(outcome_unknown=True)."""

    coalesce: bool = False
    """A watch merges the deltas its reader has not taken yet."""

    silent_rewrites: bool = False
    """A put of the value that is there already makes no delta."""

    delay: float = 0.0
    """Seconds before each call is served and before each delta is given out."""
