"""The leader's role: what it says while it leads, it says no more when it may have been deposed."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from core.errors import Invalid, NotLeader, NotSupported, PreconditionFailed
from core.ids import HostLabel
from netmaster.api.dispatch import Leader
from netmaster.api.route_table import ROUTES
from netmaster.plan.endpoints import drain
from tests.unit.netmaster.scene import NOW
from tests.unit.netmaster.term import Term, context_of, term

WITHOUT_A_LEADER = {"/openapi.json", "/api/v2/events", "/api/v2/whoami"}
"""What every master answers alike."""
STREAMS = {"/api/v2/flows/watch"}
"""Answers without end; each part of them is given by who still leads."""
WITH_A_QUERY = {
    "/api/v2/trace": "?src=n1.default-c1&dst=8.8.8.8",
    "/api/v2/reach": "?tenant=default",
    "/api/v2/policy-suggestion": "?tenant=default",
}
"""What nobody asks without one."""
READS = [
    *sorted(
        {
            route.pattern + WITH_A_QUERY.get(route.pattern, "")
            for route in ROUTES
            if route.method == "GET" and not route.parameters
        }
        - WITHOUT_A_LEADER
        - STREAMS
    ),
    "/api/v1/networks/default:n1/",
    "/api/v1/inspect/networks/default:n1/",
    "/api/v1/inspect/endpoints/c1/",
    "/hosts/h1/drain",
]


@dataclass
class Leading:
    """A leader's answers, in a term that a test ends."""

    lead: Term
    leader: Leader

    async def status(self, path: str) -> int:
        reply = await self.leader.answer(make_mocked_request("GET", path))
        assert isinstance(reply, web.Response)
        return reply.status


@pytest.fixture
async def leading() -> AsyncIterator[Leading]:
    """Lead a cluster with an endpoint and a drained host."""
    async with term() as lead:
        await lead.network("n1")
        await lead.endpoint("c1", host="h1")
        await lead.committer.submit(lambda view: drain.drain(view, HostLabel("h1"), NOW))
        yield Leading(lead, Leader(context_of(lead)))


@pytest.mark.parametrize("query", ["dryRun=true", "dry_run=1", "a=b&dryrun"])
async def test_a_dry_run_is_refused(leading: Leading, query: str) -> None:
    """The finding of docs/notes/trust.md §18."""
    path = f"/hosts/h1/drain?{query}"
    with pytest.raises(NotSupported, match=r"is not supported; nothing was changed"):
        await leading.leader.answer(make_mocked_request("DELETE", path))
    assert await leading.status(path) == 200
    assert set(leading.lead.view.drains) == {"h1"}


async def test_endpoints_are_listed_by_a_query(leading: Leading) -> None:
    async def listed(query: str) -> list[str]:
        path = f"/api/v2/endpoints?{query}"
        reply = await leading.leader.answer(make_mocked_request("GET", path))
        assert isinstance(reply, web.Response)
        assert isinstance(reply.body, bytes)
        return [one["endpointID"] for one in json.loads(reply.body)["items"]]

    assert await listed("tenant=default&host=h1") == ["c1"]
    assert await listed("host=h%32") == []
    for wrong in ("colour=red", "host=%ff", "&".join(["label=a"] * 65)):
        with pytest.raises(Invalid):
            await listed(wrong)


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
async def test_a_precondition_is_refused(leading: Leading, header: str) -> None:
    """The finding of docs/notes/trust.md §18."""
    request = make_mocked_request("DELETE", "/hosts/h1/drain", {header: "*"})
    with pytest.raises(PreconditionFailed, match=header):
        await leading.leader.answer(request)
    assert set(leading.lead.view.drains) == {"h1"}


@pytest.mark.parametrize("path", READS)
async def test_a_leader_that_may_be_deposed_answers_nothing(leading: Leading, path: str) -> None:
    assert await leading.status(path) == 200
    leading.lead.until[0] = 0.0
    with pytest.raises(NotLeader, match=r"^Leader not found$"):
        await leading.status(path)
    leading.lead.until[0] = float("inf")
