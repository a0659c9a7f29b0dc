"""Leader election as a table: (state, input) -> (next state, effects).

`netmaster.leadership` feeds inputs and performs the effects in order; it decides nothing itself. An
input without an entry for a state cannot happen there, and is an error.
"""

from enum import Enum, auto
from typing import Final


class ElectionState(Enum):
    """The state of a master."""

    FOLLOWER = auto()
    """Waits for the lock; forwards requests to its holder."""
    LOADING = auto()
    """Holds the lock and reads the store; cannot answer yet, and must not forward to itself."""
    LEADER = auto()
    """Holds the lock and answers."""
    LEAVING = auto()
    """Holds the lock until pending changes are committed; accepts no new ones."""
    STOPPED = auto()


class Input(Enum):
    """An event that may change the state."""

    ACQUIRED = auto()
    """This master acquired the lock."""
    LOADED = auto()
    """The view is complete and the start-up changes are committed."""
    FAILED = auto()
    """Loading or leading failed while this master held the lock."""
    OUTDATED = auto()
    """The store's schema may be raised, which the beginning of a term does."""
    LOST = auto()
    """The lock was lost, or a write was refused because of that."""
    RETIRE = auto()
    """The daemon was told to stop while it led."""
    STOP = auto()
    """The daemon stops."""


class Effect(Enum):
    """An action of `netmaster.leadership`."""

    REFUSE = auto()
    """Refuse requests while the view is read and the start-up changes are committed."""
    ANSWER = auto()
    """Answer requests from the view."""
    FORWARD = auto()
    """Forward requests to the leader."""
    ANNOUNCE_LEADER = auto()
    ANNOUNCE_FOLLOWER = auto()
    """Write this master's role to the service registry."""
    FLUSH = auto()
    """Wait, a moment at most, until pending changes are committed."""
    RELEASE = auto()
    """Release the lock, so that another master need not wait for its lease to end."""


Transition = tuple[ElectionState, tuple[Effect, ...]]

_STEP_DOWN: Final = (Effect.FORWARD, Effect.ANNOUNCE_FOLLOWER)

# Rules that every row keeps:
#
# * Requests are refused or forwarded before RELEASE. Else this master could still answer from its
#   view when the next leader has begun to write.
# * ANSWER comes only from LOADING, after the start-up changes: no client sees a cluster without its
#   global object.
# * LOST has no RELEASE, because there is nothing left to release.
TABLE: Final[dict[tuple[ElectionState, Input], Transition]] = {
    (ElectionState.FOLLOWER, Input.ACQUIRED): (ElectionState.LOADING, (Effect.REFUSE,)),
    (ElectionState.FOLLOWER, Input.STOP): (ElectionState.STOPPED, ()),
    (ElectionState.LOADING, Input.LOADED): (
        ElectionState.LEADER,
        (Effect.ANSWER, Effect.ANNOUNCE_LEADER),
    ),
    (ElectionState.LOADING, Input.FAILED): (
        ElectionState.FOLLOWER,
        (Effect.FORWARD, Effect.RELEASE),
    ),
    (ElectionState.LOADING, Input.LOST): (ElectionState.FOLLOWER, (Effect.FORWARD,)),
    (ElectionState.LOADING, Input.STOP): (ElectionState.STOPPED, (Effect.RELEASE,)),
    (ElectionState.LEADER, Input.FAILED): (ElectionState.FOLLOWER, (*_STEP_DOWN, Effect.RELEASE)),
    (ElectionState.LEADER, Input.LOST): (ElectionState.FOLLOWER, _STEP_DOWN),
    (ElectionState.LEADER, Input.STOP): (ElectionState.STOPPED, (Effect.FORWARD, Effect.RELEASE)),
    (ElectionState.LEADER, Input.RETIRE): (ElectionState.LEAVING, (Effect.FORWARD, Effect.FLUSH)),
    (ElectionState.LEADER, Input.OUTDATED): (ElectionState.LOADING, (Effect.REFUSE, Effect.FLUSH)),
    (ElectionState.LEAVING, Input.STOP): (ElectionState.STOPPED, (Effect.RELEASE,)),
}


def step(state: ElectionState, happened: Input) -> Transition:
    """Return the next state and the effects. KeyError for an input that cannot happen there."""
    return TABLE[state, happened]
