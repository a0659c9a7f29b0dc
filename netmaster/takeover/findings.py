"""Findings of a translation: what of the original's store is not taken over as it is."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class TakeoverOutcome(StrEnum):
    """What becomes of what a finding is about."""

    REFUSED = "refused"
    """Nothing is imported before an administrator has decided."""
    CHANGED = "changed"
    LEFT_OUT = "left out"
    NOTE = "note"
    """It is taken over; an administrator should know."""


LEAVE_OUT: Final = "--leave-out {}"
"""The remedy that every refusal has: import all but this key."""


@dataclass(frozen=True, slots=True)
class TakeoverFinding:
    """Something about one key of the original's, with the remedy of a refusal."""

    outcome: TakeoverOutcome
    key: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.outcome}: {self.key}: {self.text}{remedy}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A key that is not translated, by design, and why."""

    key: str
    reason: str


def refused(key: str, text: str, remedy: str = "") -> TakeoverFinding:
    """Return a refusal; to leave the key out is always a remedy."""
    leave_out = LEAVE_OUT.format(key)
    return TakeoverFinding(
        TakeoverOutcome.REFUSED, key, text, f"{remedy}, or {leave_out}" if remedy else leave_out
    )


def summary(skipped: Iterable[Skipped]) -> Iterator[str]:
    """Yield a line for each reason, with the number of keys."""
    for reason, count in sorted(Counter(one.reason for one in skipped).items()):
        yield f"skipped: {count} keys: {reason}"
