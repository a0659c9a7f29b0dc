"""Answers `GET /api/v2/selftest`: every host tests itself, and its ways to all others.

Asks the agents of all hosts, side by side; `netmaster.plan.show.self_test` makes the report.
"""

from typing import Final

from aiohttp import web

from core.patience import patient
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.show import self_test

PATH: Final = "/api/v2/selftest"
ASKED: Final = "/inspect/selftest"
SECONDS: Final = patient(25.0)
"""Seconds that a host has; it ends its own test earlier."""

OPERATION: Final = OperationDoc(summary="self-test", tag="hosts", answer=self_test.SelfTest)


async def answer(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Answer the outcomes of all hosts' tests."""
    answers = await leader.agents.ask_all(ASKED, seconds=SECONDS)
    known = await leader.hosts.all()
    return json_reply(self_test.report(answers.replies, answers.unreachable, known))
