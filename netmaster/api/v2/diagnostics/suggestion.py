"""Answers `GET /api/v2/policy-suggestion`: rules that allow the connections that were seen.

Asks the agents of all hosts for conversations (`state.conversations`);
`netmaster.plan.reachability.suggestion` makes policies of them. Nothing is changed.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from aiohttp import web
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from contivmodel.answers import Count as Number
from contivmodel.representation import shown
from core.errors import AgentUnavailable, Invalid, NotFound
from core.ids import TenantName
from netmaster import agent_answers
from netmaster.agent_answers import Count, Flag, Name
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.reachability.reach_changes import ReachChanges
from netmaster.plan.reachability.suggested_network_policies import network_policies
from netmaster.plan.reachability.suggestion import Suggestion, Wish, check, suggest
from netmaster.plan.show.flow_pages import FlowGaps, gaps
from netmaster.view import View
from state.conversations import MOST, Conversation, Party
from state.flow_records import FILTERS, chooser

PATH: Final = "/api/v2/policy-suggestion"
ASKED: Final = "/inspect/conversations"
"""The agents' route (`netplugin.flow_records.report`)."""

_ABOUT: Final = timedelta(minutes=1)
"""A host that records since little later than what is asked for is not told."""
_TIMES: Final = ("since", "until")
_QUERY: Final = {
    "tenant": "whose groups get policies",
    "groups": "only these groups, joined by commas; else all of which connections were seen",
    "dropped": "`true`: what policies dropped is to be allowed too",
    **{name: f"connections {FILTERS[name]}" for name in _TIMES},
}


@with_config(ConfigDict(title="SuggestedGroup"))
class _Group(TypedDict):
    key: str
    policies: Annotated[list[str], Field(description="what the group is to have")]
    replaces: Annotated[list[str], Field(description="what it has now, and would not have")]


class PolicySuggestion(FlowGaps, TypedDict):
    """Objects to make, in this order, for policies that allow what was seen and nothing else."""

    tenant: str
    policys: Annotated[list[dict[str, Any]], Field(description="bodies for `POST policys`")]
    rules: Annotated[list[dict[str, Any]], Field(description="bodies for `POST rules`")]
    endpointGroups: Annotated[list[_Group], Field(description="then patch these `policies`")]
    networkPolicies: Annotated[
        list[dict[str, Any]], Field(description="the same for pods, as objects of Kubernetes")
    ]
    unsaid: Annotated[
        list[str], Field(description="what NetworkPolicies would deny: they have no word for it")
    ]
    reach: ReachChanges
    wider: Annotated[list[str], Field(description="rules that allow more than was seen, and why")]
    unseen: Annotated[
        list[str], Field(description="groups that get no policy, or of which nothing was seen")
    ]
    connections: Annotated[Number, Field(description="that were seen")]
    dropped: Annotated[Number, Field(description="that policies dropped, and still would")]
    leftOut: Annotated[
        Number,
        Field(
            description="of groups and networks that are no more, and of protocols that rules "
            "cannot name"
        ),
    ]
    complete: Annotated[bool, Field(description="false if a host had too many to tell all")]
    since: Annotated[
        dict[str, str], Field(description="the hosts that record only since this time")
    ]


OPERATION: Final = OperationDoc(
    summary="suggest policies", tag="rule", answer=PolicySuggestion, query=_QUERY
)


def _address(text: str) -> str:
    """Return an address as it is written, or nothing. Raises ValueError."""
    if "%" in text:
        raise ValueError("an address with a zone")
    return str(ip_address(text)) if text else ""


def _named(party: "_Party") -> "_Party":
    """Return an end that rules can name. Raises ValueError."""
    if not (party["group"] or party["network"] or party["address"]):
        raise ValueError("an end without group, network and address")
    return party


class _Party(TypedDict):
    network: Name
    group: Name
    namespace: Name
    address: Annotated[Name, AfterValidator(_address)]


class _Conversation(TypedDict):
    source: Annotated[_Party, AfterValidator(_named)]
    destination: Annotated[_Party, AfterValidator(_named)]
    protocol: Name
    port: Annotated[int, Field(strict=True, ge=0, le=65_535)]
    dropped: Flag
    connections: Count


_Answer = TypedDict(
    "_Answer",
    {
        "on": Flag,
        "conversations": Annotated[list[_Conversation], Field(max_length=MOST)],
        "complete": Flag,
        "from": Annotated[float, Field(ge=0, le=253_402_300_799)],
        "lost": dict[Name, Count],
    },
)
_ANSWER: Final = TypeAdapter(_Answer)


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a suggestion. Raises Invalid without a tenant, NotFound for one not to be seen."""
    asked = parameters(request.query, _QUERY)
    tenant = asked.get("tenant", "")
    if not tenant:
        raise Invalid("parameter tenant is required")
    visible = request.access.tenants if request.access else None
    if visible is not None and tenant not in visible:
        raise NotFound(f"tenant {tenant} not found")
    if asked.get("dropped", "") not in {"", "true", "false"}:
        raise Invalid("parameter dropped is true or false")
    wanted = {name: asked[name] for name in _TIMES if asked.get(name)}
    chooser(wanted)
    wish = Wish(
        tenant=TenantName(tenant),
        groups=frozenset(filter(None, asked.get("groups", "").split(","))),
        dropped=asked.get("dropped") == "true",
    )
    await leader.committer.read(partial(check, wish=wish))  # refused before hosts are asked
    answers = await leader.agents.ask_all(f"{ASKED}?{urlencode({**wanted, 'tenant': tenant})}")
    told, failed = await asyncio.to_thread(_read, answers.replies)
    seen: Counter[Conversation] = Counter()
    for one in told.values():
        for each in one["conversations"]:
            seen[_conversation(each)] += each["connections"]
    found, pods, unsaid = await leader.committer.read(partial(_suggest, seen=seen, wish=wish))
    suggestion: PolicySuggestion = {
        "tenant": tenant,
        "policys": [shown(one) for one in found.policies],
        "rules": [shown(one) for one in found.rules],
        "endpointGroups": [
            {"key": one.key, "policies": one.policies, "replaces": one.replaces}
            for one in found.groups
        ],
        "networkPolicies": pods,
        "unsaid": unsaid,
        "reach": found.reach,
        "wider": found.wider,
        "unseen": found.unseen,
        "connections": sum(seen.values()),
        "dropped": found.dropped,
        "leftOut": found.left_out,
        "complete": all(one["complete"] for one in told.values()),
        "since": _late(told, wanted.get("since", "")),
        **gaps(told, {**answers.unreachable, **failed}),
    }
    return json_reply(suggestion)


def _suggest(
    view: View, seen: Mapping[Conversation, int], wish: Wish
) -> tuple[Suggestion, list[dict[str, Any]], list[str]]:
    found = suggest(view, seen, wish)
    allowed = [one for one in seen if wish.dropped or not one.dropped]
    return found, *network_policies(view, wish.tenant, allowed, wish.groups)


def _read(replies: Mapping[str, bytes]) -> tuple[dict[str, _Answer], dict[str, str]]:
    told, failed = {}, {}
    for host, body in replies.items():
        try:
            told[host] = agent_answers.read(host, "conversations", body, _ANSWER)
        except AgentUnavailable as exc:
            failed[host] = str(exc)
    return told, failed


def _conversation(one: _Conversation) -> Conversation:
    source, destination = (Party(**end) for end in (one["source"], one["destination"]))
    return Conversation(source, destination, one["protocol"], one["port"], one["dropped"])


def _late(told: Mapping[str, _Answer], since: str) -> dict[str, str]:
    """Return since when hosts record that began later than what is asked for."""
    at = datetime.fromisoformat(since) if since else datetime.fromtimestamp(0, UTC)
    at = (at if at.tzinfo else at.replace(tzinfo=UTC)) + _ABOUT
    began = {
        host: datetime.fromtimestamp(one["from"], UTC) for host, one in told.items() if one["on"]
    }
    return {host: one.isoformat(timespec="seconds") for host, one in began.items() if one > at}
