"""What a change would do to the flows of every host's switches, for a dry run.

In come the writes that `netmaster.plan.effects` has foretold. The agents of all hosts are asked
(`netplugin.diagnostics.dry_run`), each for its own switches: only an agent knows its ports, and
its code makes the flows. The leader computes nothing.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final, Protocol

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from contivmodel.schema import TEXT, Schema, named
from core.errors import AgentUnavailable
from core.patience import patient
from netmaster import agent_answers, codec
from netmaster.agent_answers import Count, Name
from netmaster.api.leader.agents import Answers
from netmaster.plan.effects import Foretold
from netmaster.stored import Write
from state.watch import AGENT_PREFIXES

ASKED: Final = "/dry-run"
SECONDS: Final = patient(5.0)
"""Seconds that each host has to answer."""
_COUNTS: Final = ("added", "removed", "replaced")
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FLOWS_SCHEMA: Final = named(
    "FlowEffects",
    {
        "type": "object",
        "properties": {
            "hosts": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": dict.fromkeys(_COUNTS, _COUNT),
                },
            },
            "missing": {
                "type": "object",
                "additionalProperties": TEXT,
                "description": "the hosts whose figures are missing, with the reason",
            },
            "complete": {
                "type": "boolean",
                "description": "false if a change is too large: no figures are told then",
            },
        },
    },
)


class _Figures(TypedDict):
    added: Count
    removed: Count
    replaced: Count


_ANSWER: Final = TypeAdapter[dict[str, _Figures]](dict[Name, _Figures])


class Agents(Protocol):
    """The agents of all hosts (`netmaster.api.leader.agents`)."""

    async def ask_all(
        self, path: str, *, seconds: float = ..., body: bytes | None = ...
    ) -> Answers:
        """Return what all hosts answer to one question."""


async def effects(agents: Agents, foretold: Foretold) -> dict[str, Any]:
    """Return all effects of a change: those of the plan, and `flows` by host.

    A figure is missing for a host that does not answer; of a change that is not followed whole all
    are. Flows that depend on what hosts do later (a port they make, a route they learn) are not
    counted, nor those of the policies of Kubernetes.
    """
    flows: dict[str, Any] = {"hosts": {}, "missing": {}, "complete": foretold.complete}
    asked = [write for write in foretold.writes if write.key.startswith(AGENT_PREFIXES)]
    if asked and foretold.complete:
        question = await asyncio.to_thread(_question, asked)
        answers = await agents.ask_all(ASKED, seconds=SECONDS, body=question)
        flows["missing"] = dict(answers.silent)
        for host, body in answers.said.items():
            try:
                flows["hosts"][host] = _sum(host, body)
            except AgentUnavailable as exc:
                flows["missing"][host] = str(exc)
    return {**foretold.shown(), "flows": flows}


def _question(writes: Iterable[Write]) -> bytes:
    """Return the records of writes as texts by key; null removes."""
    texts = {
        write.key: None if write.record is None else codec.encode(write.record).decode()
        for write in writes
    }
    return json.dumps({"writes": texts}).encode()


def _sum(host: str, body: bytes) -> dict[str, int]:
    """Return the counts of a host over its bridges. Raises AgentUnavailable."""
    bridges = agent_answers.read(host, "figures of a dry run", body, _ANSWER)
    return {
        "added": sum(one["added"] for one in bridges.values()),
        "removed": sum(one["removed"] for one in bridges.values()),
        "replaced": sum(one["replaced"] for one in bridges.values()),
    }
