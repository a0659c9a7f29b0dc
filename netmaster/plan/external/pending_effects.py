"""Doubts: of what somebody outside may hold something else than the store (docs/adr/0004).

Pure. `netmaster.external_effects` has them stored before anybody outside is told of a change, and
ended in the transaction that makes the change.
"""

from collections.abc import Iterable
from typing import Protocol

from netmaster.stored import PendingEffect, Write
from netmaster.view import View


class Unconfirmed(Protocol):
    """What is to be done outside about one thing: it is in doubt until that is known to be done."""

    @property
    def doubt(self) -> PendingEffect:
        """What is in doubt."""


def raised(view: View, errands: Iterable[Unconfirmed]) -> tuple[Write, ...]:
    """Return the writes that have all that errands are about be in doubt."""
    doubts = (errand.doubt for errand in errands)
    return tuple(
        Write(doubt.key, doubt, new=True) for doubt in doubts if doubt.key not in view.doubts
    )


def ended(view: View, errands: Iterable[Unconfirmed]) -> tuple[Write, ...]:
    """Return the writes that say that outside and store agree about what errands are about."""
    marks = (errand.doubt.key for errand in errands)
    return tuple(Write(key, None, new=False) for key in marks if key in view.doubts)
