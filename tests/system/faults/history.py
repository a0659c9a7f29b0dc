"""What clients asked for and what they were told, in the order in which it happened.

In come invocations and their outcomes, from one event loop; out comes a `History` for
`tests.system.faults.checker`. Each client does one thing at a time and uses each endpoint name for
one life: it is created until that is acknowledged, then deleted until that is. An address that was
reserved is released by one request alone, for a second one that comes late could release what
somebody else was given meanwhile: the request names nobody.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import aiohttp

from core.errors import (
    ContivError,
    Exhausted,
    MasterRefused,
    MasterUnavailable,
    NotFound,
    NotLeader,
)

NEVER: Final = 1 << 62
"""A place behind everything that happens."""


class Verb(StrEnum):
    """What is asked for."""

    CREATE = "create"
    DELETE = "delete"
    LOOK = "look"
    ALLOCATE = "allocate"
    RELEASE = "release"
    REPORT = "report"
    """Of an endpoint whose host gave it an address by itself."""


@dataclass(frozen=True, slots=True)
class Done:
    """It was done, and this is the address it is about."""

    address: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It was certainly not done, and never will be."""

    absent: bool
    """Because there is no such thing, not because there is no room."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have been done, or may yet be, until the end of the clients."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """It was certainly not done, for no master led or the store was away; ask again."""

    reason: str


Outcome = Done | Refused | Unknown | NotDone


@dataclass(slots=True)
class Operation:
    """One request of a client about an endpoint, or a reservation, that it calls by a name.

    `invoked` and `ended` are places in the order of all that happened.
    """

    verb: Verb
    client: str
    network: str
    name: str
    invoked: int
    ended: int = NEVER
    ahead: bool = False
    """Whether a host gave the address, and no master was asked."""
    outcome: Outcome = field(default_factory=lambda: Unknown("not over"))


class History:
    """Everything that was asked."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._events = 0
        # Counted as they end: what waits for a number of them asks many times a second.
        self._ended: Counter[tuple[Verb, type[Outcome]]] = Counter()

    def invoke(self, verb: Verb, client: str, network: str, name: str) -> Operation:
        """Note that something is asked for from now on."""
        operation = Operation(verb, client, network, name, self._next())
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome) -> None:
        """Note what came of it."""
        operation.ended = self._next()
        operation.outcome = outcome
        self._ended[operation.verb, type(outcome)] += 1

    @property
    def done(self) -> int:
        """How many requests were acknowledged until now."""
        return sum(self.count(verb, Done) for verb in Verb)

    def count(self, verb: Verb, outcome: type[Outcome]) -> int:
        """Return how many requests of a kind ended with such an outcome."""
        return self._ended[verb, outcome]

    def _next(self) -> int:
        self._events += 1
        return self._events


def outcome_of(error: ContivError) -> Outcome | None:
    """Return what an error says of the request; None where the request was never sent.

    A master that says that none leads, or that nothing was done, is taken at its word. An error
    that says neither leaves the outcome unknown.
    """
    match error:
        case MasterUnavailable(outcome_unknown=False) if not isinstance(
            error.__cause__, OSError | aiohttp.ClientError
        ):
            return NotDone(str(error))
        case MasterUnavailable(outcome_unknown=False):
            return None
        case NotLeader():
            return NotDone(str(error))
        case NotFound():
            return Refused(absent=True)
        case Exhausted():
            return Refused(absent=False)
        case MasterUnavailable() | MasterRefused():
            return Unknown(str(error))
        case _:
            raise error
