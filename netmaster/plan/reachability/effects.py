"""What a change would do, for a dry run: what it would write, in all its parts, and what follows.

Pure.

In come a view and the plan of a change that was decided on it; out comes what `?dryRun=true`
answers as `effects`. The plan is carried out on a copy of the view. What becomes of the flows of
switches is added by `netmaster.api.leader.flow_effects`.
"""

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from netmaster.plan.model import Plan
from netmaster.plan.reachability import reach_changes
from netmaster.plan.reachability.reach_changes import ReachChanges
from netmaster.stored import Write
from netmaster.view import View

MOST_WRITES: Final = 1000
"""Writes that are told; a larger change is not followed further."""


@with_config(ConfigDict(title="Write"))
class ShownWrite(TypedDict):
    """A record of the store that a change writes or deletes."""

    key: str
    action: Literal["put", "delete"]


class PlanEffects(TypedDict):
    """What a change would write, and whom it would let talk."""

    writes: list[ShownWrite]
    complete: bool
    reach: ReachChanges


@dataclass(frozen=True, slots=True)
class ChangePreview:
    """The writes of a change in all its parts, and who could talk to whom.

    `complete` is false for a change that is too large to be told whole.
    """

    writes: tuple[Write, ...]
    complete: bool
    reach: ReachChanges

    def shown(self) -> PlanEffects:
        """Return the effects as they are answered."""
        return {
            "writes": list(map(_shown, self.writes)),
            "complete": self.complete,
            "reach": self.reach,
        }


def preview(before: View, plan: Plan, *, most_writes: int = MOST_WRITES) -> ChangePreview:
    """Return the effects of a plan that was decided on a view, which stays as it is.

    After `most_writes` the plan is not followed further.
    """
    after = before.copy()
    writes: list[Write] = []
    part: Plan | None = plan
    while part is not None and len(writes) < most_writes:
        after.apply(part.writes)
        writes += part.writes
        part = part.then(after) if part.then else None
    return ChangePreview(tuple(writes), part is None, reach_changes.compare(before, after))


def _shown(write: Write) -> ShownWrite:
    return {"key": write.key, "action": "delete" if write.record is None else "put"}
