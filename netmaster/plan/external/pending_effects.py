"""Pending effects: external objects whose state may differ from the store (ADR 4).

Pure. `netmaster.external.external_effects` stores a pending effect before it performs an operation
outside, and removes it in the transaction that makes the change.
"""

from collections.abc import Iterable
from typing import Protocol

from netmaster.stored import PendingEffect, Write
from netmaster.view import View


class EffectOperation(Protocol):
    """An operation on one external object."""

    @property
    def effect(self) -> PendingEffect:
        """The stored intent, deleted on success."""


def recorded(view: View, operations: Iterable[EffectOperation]) -> tuple[Write, ...]:
    """Return the writes that store the pending effects of operations; known ones are left out."""
    effects = (operation.effect for operation in operations)
    return tuple(
        Write(effect.key, effect, new=True)
        for effect in effects
        if effect.key not in view.pending_effects
    )


def ended(view: View, operations: Iterable[EffectOperation]) -> tuple[Write, ...]:
    """Return the writes that remove the pending effects of operations that are done."""
    pending = (operation.effect.key for operation in operations)
    return tuple(Write(key, None, new=False) for key in pending if key in view.pending_effects)
