"""What a decision is made of: the writes it wants, and the reply to give once they are committed.

Plans are made by the modules of this package, applied by `netmaster.view` and committed by
`netmaster.commits.commit`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from netmaster.stored import Write
from netmaster.view import View


@dataclass(frozen=True, slots=True)
class Plan:
    """Writes of one transaction, and the reply to give after it. Without writes nothing changes.

    `then` is for a change that may be too large for one transaction. These writes then store the
    intent, and `then`, given the view, decides the next part; the reply waits for the last part.
    A part that is lost in a failure is redone by the periodic tasks of `netmaster.leadership`.
    """

    writes: tuple[Write, ...]
    reply: object
    then: Callable[[View], "Plan"] | None = None
