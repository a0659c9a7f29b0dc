"""The life of a master as a table: (state, input) -> (next state, effects).

The daemon feeds what happens and performs the effects in order; it decides nothing itself. An
input that the table does not know in a state cannot happen there, and is an error.
"""

from enum import Enum, auto
from typing import Final


class ElectionState(Enum):
    """Where a master stands."""

    FOLLOWER = auto()
    """Waiting for the lock; requests go to whoever holds it."""
    LOADING = auto()
    """Holds the lock and reads the store; cannot answer yet, and must not ask itself."""
    LEADER = auto()
    """Holds the lock and answers."""
    LEAVING = auto()
    """Holds the lock and lets what is under way be committed; takes nothing new."""
    STOPPED = auto()


class Input(Enum):
    """What happens to a master."""

    ACQUIRED = auto()
    """The lock became ours."""
    LOADED = auto()
    """The view is complete and the start-up changes are committed."""
    FAILED = auto()
    """Loading or leading failed while the lock was ours, by its own fault or the store's."""
    LOST = auto()
    """The lock is no longer ours, or a write was refused for that reason."""
    RETIRE = auto()
    """The daemon was asked to end while it led."""
    STOP = auto()
    """The daemon ends."""


class Effect(Enum):
    """What the daemon does about it."""

    REFUSE = auto()
    """Refuse requests while the view is read and the start-up changes are committed."""
    ANSWER = auto()
    """Answer requests from the view."""
    FORWARD = auto()
    """Send requests to the leader, whoever that is."""
    ANNOUNCE_LEADER = auto()
    ANNOUNCE_FOLLOWER = auto()
    """Tell the service registry our role."""
    SETTLE = auto()
    """Wait, a moment at most, until what is under way is committed."""
    RELEASE = auto()
    """Give up the lock at once."""


Transition = tuple[ElectionState, tuple[Effect, ...]]

_STEP_DOWN: Final = (Effect.FORWARD, Effect.ANNOUNCE_FOLLOWER)

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
    (ElectionState.LEADER, Input.RETIRE): (ElectionState.LEAVING, (Effect.FORWARD, Effect.SETTLE)),
    (ElectionState.LEAVING, Input.STOP): (ElectionState.STOPPED, (Effect.RELEASE,)),
}


def step(state: ElectionState, happened: Input) -> Transition:
    """Return the next state and what to do. KeyError for what cannot happen in that state."""
    return TABLE[state, happened]
