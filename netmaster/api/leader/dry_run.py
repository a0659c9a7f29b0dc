"""A dry run of a change of v1: `?dryRun=true` answers what the change would do, and does nothing.

The same decision as the change's, on the same view; its refusals are those of the change. API v2
has its own form of the answer (`netmaster.api.v2.handlers`).
"""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl

from contivmodel.objects import RestObject
from contivmodel.representation import shown
from contivmodel.schema import Schema
from netmaster.api.http import queries
from netmaster.api.leader import flow_effects
from netmaster.api.leader.flow_effects import Effects
from netmaster.api.leader.leader_context import LeaderContext
from netmaster.plan.model import Plan
from netmaster.plan.reachability import effects
from netmaster.plan.reachability.effects import ChangePreview
from netmaster.view import View

QUERY: Final = {queries.DRY_RUN: "`true`: write nothing, answer what would be"}


def answer(whole: Schema) -> Schema:
    """Return the schema of what either a change or its dry run answers."""
    return {"anyOf": [whole, {"type": "object"}]}


def is_asked(query: str) -> bool:
    """Return whether a request only asks what it would do. Raises Malformed for other texts.

    Other parameters are ignored, as in v1. Of several values one `true` is enough.
    """
    asked = parse_qsl(query, keep_blank_values=True)
    return True in {
        queries.is_dry_run({name: text}) for name, text in asked if name == queries.DRY_RUN
    }


async def preview(decide: Callable[[View], Plan], leader: LeaderContext) -> tuple[object, Effects]:
    """Return what a change would reply, and its effects."""

    def look(view: View) -> tuple[object, ChangePreview]:
        plan = decide(view)
        return plan.reply, effects.preview(view, plan)

    reply, found = await leader.committer.read(look)
    return reply, await flow_effects.effects(leader.agents, found)


async def v1_answer(decide: Callable[[View], Plan], leader: LeaderContext) -> dict[str, Any]:
    """Return the object as it would be, None for a deleted one, and the effects."""
    reply, found = await preview(decide, leader)
    return {"object": shown(reply) if isinstance(reply, RestObject) else None, "effects": found}
