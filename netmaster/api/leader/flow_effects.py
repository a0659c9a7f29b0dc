"""What a change would do to the flows of every host's switches, for a dry run.

In come the writes that `netmaster.plan.reachability.effects` has computed. The agents of all hosts
are asked (`netplugin.diagnostics.dry_run`), each for its own switches: only an agent knows its
ports, and its code makes the flows. The leader computes nothing.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Annotated, Final, Protocol

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from contivmodel.answers import Count
from core.errors import AgentUnavailable
from core.patience import patient
from netmaster import agent_answers, codec
from netmaster.agent_answers import Name
from netmaster.api.leader.agents import Answers
from netmaster.plan.reachability.effects import ChangePreview, PlanEffects
from netmaster.stored import Write
from state.watch import AGENT_PREFIXES

ASKED: Final = "/dry-run"
SECONDS: Final = patient(5.0)
"""Seconds that each host has to answer."""


class FlowFigures(TypedDict):
    """How many flows a change adds, removes and replaces on a host."""

    added: Count
    removed: Count
    replaced: Count


class FlowEffects(TypedDict):
    """What a change would do to flows."""

    hosts: dict[str, FlowFigures]
    missing: Annotated[
        dict[str, str],
        Field(description="the hosts whose figures are missing, with the reason"),
    ]
    complete: Annotated[
        bool, Field(description="false if a change is too large: there are no figures then")
    ]


class Effects(PlanEffects):
    """What a change would do."""

    flows: FlowEffects


class _Figures(TypedDict):
    added: agent_answers.Count
    removed: agent_answers.Count
    replaced: agent_answers.Count


_ANSWER: Final = TypeAdapter[dict[str, _Figures]](dict[Name, _Figures])


class Agents(Protocol):
    """The agents of all hosts (`netmaster.api.leader.agents`)."""

    async def ask_all(
        self, path: str, *, seconds: float = ..., body: bytes | None = ...
    ) -> Answers:
        """Return what all hosts answer to one question."""


async def effects(agents: Agents, preview: ChangePreview) -> Effects:
    """Return all effects of a change: those of the plan, and `flows` by host.

    A figure is missing for a host that does not answer; of a change that is not followed whole all
    are. Flows that depend on what hosts do later (a port they make, a route they learn) are not
    counted, nor those of the policies of Kubernetes.
    """
    flows: FlowEffects = {"hosts": {}, "missing": {}, "complete": preview.complete}
    asked = [write for write in preview.writes if write.key.startswith(AGENT_PREFIXES)]
    if asked and preview.complete:
        question = await asyncio.to_thread(_question, asked)
        answers = await agents.ask_all(ASKED, seconds=SECONDS, body=question)
        flows["missing"] = dict(answers.unreachable)
        for host, body in answers.replies.items():
            try:
                flows["hosts"][host] = _sum(host, body)
            except AgentUnavailable as exc:
                flows["missing"][host] = str(exc)
    return {**preview.shown(), "flows": flows}


def _question(writes: Iterable[Write]) -> bytes:
    """Return the records of writes as texts by key; null removes."""
    texts = {
        write.key: None if write.record is None else codec.encode(write.record).decode()
        for write in writes
    }
    return json.dumps({"writes": texts}).encode()


def _sum(host: str, body: bytes) -> FlowFigures:
    """Return the counts of a host over its bridges. Raises AgentUnavailable."""
    bridges = agent_answers.read(host, "figures of a dry run", body, _ANSWER)
    return {
        "added": sum(one["added"] for one in bridges.values()),
        "removed": sum(one["removed"] for one in bridges.values()),
        "replaced": sum(one["replaced"] for one in bridges.values()),
    }
