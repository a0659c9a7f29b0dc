"""The handlers of API v1's routes: from a request to the answer, by way of the committer.

`netmaster.api.route_table` says which handler answers which route. `objects` and `agent_calls` turn
bodies into decisions; everything shown is read through the committer, which answers only while
this master certainly leads.
"""

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import web

from contivmodel.client import HISTORY_HEADER, REVISIONS_HEADER
from contivmodel.service_objects import Bgp
from core.ids import HostLabel
from core.logs import fields
from daemons.certificates.peers import Role
from netmaster.api.http.replies import (
    bare_json,
    json_body,
    json_line,
    json_reply,
    not_found,
    plain,
)
from netmaster.api.leader import dry_run
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.leader.state_text import inspection
from netmaster.api.v1 import agent_calls, objects
from netmaster.api.v1.agent_calls import ReadCall
from netmaster.api.v1.objects import ObjectClass
from netmaster.host_progress import policy_revisions
from netmaster.plan import quotas
from netmaster.plan.change_log import recorded
from netmaster.plan.model import Plan
from netmaster.plan.show import ofnet_endpoints, ofnet_rules, service_states
from netmaster.view import View
from state.records import EndpointRecord

log = logging.getLogger(__name__)


async def list_objects(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Answer all objects of a class that the client may see."""
    line = await leader.committer.read(partial(objects.listed, kind=kind))
    return json_line(request.access.visible(line) if request.access else line)


async def read_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Answer one object."""
    read = partial(objects.stored, kind=kind, key=request.parameters["key"])
    return json_reply(await leader.committer.read(read))


async def write_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Create an object, or update it where it exists; answer the object."""
    decide = objects.write(kind, request.parameters["key"], await request.body())
    return await _change(decide, leader, request)


async def delete_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Delete an object; answer its key."""
    delete = kind.deletion(leader.mode)
    return await _change(lambda view: delete(view, request.parameters["key"]), leader, request)


async def _change(
    decide: Callable[[View], Plan], leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Make a change, or a dry run of it."""
    decide = request.allowed(decide)
    if dry_run.is_asked(request.query):
        return json_reply(await dry_run.v1_answer(decide, leader))
    return json_reply(await leader.effects.change(recorded(decide, request.origin, leader.now())))


async def inspect_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Answer an object and its operational state; the host's agent reports that of BGP."""
    key = request.parameters["key"]
    inspect = partial(objects.inspected, kind=kind, key=key, mode=leader.mode)
    shown: dict[str, Any] = await leader.committer.read(inspect)
    if kind.model is Bgp:
        shown = {**shown, "Oper": await leader.agents.bgp(key)}
    return json_body(inspection(shown, leader.endpoint_texts))


async def inspect_endpoint(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the operational state of an endpoint."""
    inspect = partial(
        objects.inspected_endpoint,
        name=request.parameters["key"],
        tenants=request.access.tenants if request.access else None,
    )
    shown = await leader.committer.read(inspect)
    return json_body(inspection(shown, leader.endpoint_texts))


async def agent_call(
    read_call: ReadCall, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Answer a `/plugin/*` request of an agent; as in the original, a body not JSON is a 404."""
    # Checked before the body is read: to the original such a request has no route.
    if not agent_calls.is_json(request.content_type):
        return not_found()
    at = agent_calls.CallContext(
        leader.now(),
        leader.mode,
        claims_only=leader.claims is not None and leader.claims.is_open(),
        new_id=leader.new_id,
        block_seconds=leader.block_seconds,
        agent=_agent(request),
    )
    call = read_call(await request.body(), at)
    plan = Plan((), reply=None)

    def decide(view: View) -> Plan:
        nonlocal plan
        # On the view, not before: another request may move the endpoint meanwhile.
        if request.access:
            request.access.check(hosts=call.hosts(view))
        plan = call.decide(view)
        if call.within_quotas:
            quotas.check(view, plan)
        return plan

    reply = await leader.committer.submit(decide)
    # Without writes it is a request that came once more.
    if call.event and plan.writes and isinstance(reply, EndpointRecord):
        log.info(call.event, extra=_about(reply))
    answer = json_body(call.answer(reply))
    if call.tells_revisions:
        revisions = policy_revisions(leader.committer.revisions)
        answer.headers[REVISIONS_HEADER] = json.dumps(revisions)
        answer.headers[HISTORY_HEADER] = leader.committer.view.lineage.current
    return answer


def _about(record: EndpointRecord) -> dict[str, object]:
    """Return what tells an endpoint in the log; its agent's lines have the same `endpoint`."""
    return fields(
        endpoint=record.key,
        host=record.homing_host,
        pod=record.common_name or None,
        address=record.ip_address,
    )


def _agent(request: ApiRequest) -> str:
    """Return the label of the host whose agent asks, "" if none does."""
    who = request.access.who if request.access else None
    return who.name if who is not None and who.role is Role.AGENT else ""


async def log_in(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a name and a password with a token; without TLS there is no such route."""
    if leader.access is None or request.access is None:
        return not_found()
    token = await leader.access.log_in(await request.body(), request.access.origin)
    return json_reply({"token": token})


async def version(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Answer the version."""
    await _confirm_leadership(leader)
    return bare_json(leader.status.version())


async def info(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Answer who leads, and which masters and agents are registered."""
    page = await leader.status.info()
    await _confirm_leadership(leader)
    return bare_json(page)


async def ofnet(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Answer the state of the control channel, all endpoints and all ofnet rules."""
    page = leader.status.ofnet()
    vteps = await leader.agents.vteps()

    def databases(view: View) -> dict[str, object]:
        return {
            "EndpointDb": ofnet_endpoints.endpoint_db(view, vteps),
            "PolicyDb": ofnet_rules.policy_db(view),
        }

    return bare_json({**page, **await leader.committer.read(databases)})


async def services(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Answer all services with their providers."""
    return bare_json(await leader.committer.read(service_states.all_services))


async def service(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer one service with its providers."""
    key = request.parameters["key"]
    return bare_json(
        await leader.committer.read(lambda view: service_states.one_service(view, key))
    )


async def clean_up(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Remove the endpoints of a network, a group or a container."""
    asked = request.parameters
    removed = leader.cleanups.perform(asked["tenant"], asked["category"], asked["key"])
    return plain(await removed)


async def hosts(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Answer all hosts."""
    return json_reply(await leader.hosts.all())


async def host(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer one host."""
    return json_reply(await leader.hosts.one(_label(request)))


async def remove_host(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Remove a host without agent and endpoints."""
    return json_reply(
        await leader.hosts.remove(_label(request), force=False, origin=request.origin)
    )


async def force_host_away(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Remove a host with all its endpoints, even while its agent runs."""
    return json_reply(await leader.hosts.remove(_label(request), force=True, origin=request.origin))


async def drained_host(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer whether a host is drained."""
    return json_reply(await leader.hosts.drained(_label(request)))


async def drain_host(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Give a host no new endpoints."""
    return json_reply(await leader.hosts.drain(_label(request), request.origin))


async def undrain_host(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Give a host new endpoints again."""
    return json_reply(await leader.hosts.undrain(_label(request), request.origin))


async def ipam_check(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Answer what is wrong with the addresses."""
    return json_reply(await leader.ipam.check())


async def ipam_fix(leader: LeaderContext, _: ApiRequest) -> web.Response:
    """Repair what is wrong with the addresses, where the repair is certain."""
    return json_reply(await leader.ipam.fix())


async def _confirm_leadership(leader: LeaderContext) -> None:
    """No-op read: raises NotLeader unless this master still leads.

    For answers that are not read from the view: after a partition a deposed leader would give
    them for as long as nothing else stops it.
    """
    await leader.committer.read(lambda _: None)


def _label(request: ApiRequest) -> HostLabel:
    return HostLabel(request.parameters["label"])
