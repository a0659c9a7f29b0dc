"""The records of rules with `log` over all hosts, newest first, a page at a time. Pure.

In come the answers of the agents' `/inspect/policy-log` (`netplugin.diagnostics.policy_log`); out
comes `GET /api/v2/policy-log`. An answer that cannot be read counts as none.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from core.errors import AgentUnavailable
from netmaster import agent_answers
from netmaster.agent_answers import Count, Name, Text

Place = tuple[str, str, int]
"""Where a record stands: its time, its host, its number there."""

FILTERS: Final = {
    "tenant": "of rules of this tenant",
    "policy": "of the policies of this name",
    "rule": "of the rules with this id",
    "action": "`allow` or `deny`",
    "host": "on the host with this label",
}


@with_config(ConfigDict(title="PolicyLogEnd"))
class LogEnd(TypedDict):
    """The sender or the receiver of a packet; names are empty where they are not known."""

    address: Name
    port: Count
    tenant: Name
    network: Name
    group: Name
    endpoint: Name
    container: Name


class _Record(TypedDict):
    number: Count
    at: Name
    tenant: Name
    policy: Name
    rule: Name
    action: Name
    protocol: Name
    source: LogEnd
    destination: LogEnd


class _Unrecorded(TypedDict):
    tenant: Name
    policy: Name
    rule: Name
    packets: Count


class _Log(TypedDict):
    records: list[_Record]
    unrecorded: list[_Unrecorded]
    missing: dict[Name, Text]


_ANSWER: Final = TypeAdapter(_Log)


class LogEntry(_Record):
    """What a rule decided about a packet, on a host."""

    host: str


class UnrecordedPackets(_Unrecorded):
    """Packets that a rule decided about without a record."""

    host: str


@with_config(ConfigDict(title="PolicyLog"))
class PolicyLogList(TypedDict):
    """A page of what rules with `log` decided."""

    items: list[LogEntry]
    next: Annotated[str, Field(description="`after` of the next page; empty at the end")]
    unrecorded: Annotated[
        list[UnrecordedPackets],
        Field(description="packets that such rules decided about without a record"),
    ]
    unreachable: Annotated[
        dict[str, str],
        Field(description="the hosts whose records or counters are missing, with the reason"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """What is asked for: records with these values, older than a place.

    `tenants` are those the client may see, None for all.
    """

    having: Mapping[str, str]
    limit: int
    before: Place | None = None
    tenants: Collection[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """A page of records, and the place to go on from; None at the end.

    `unrecorded` has packets without a record, by host and rule; `unreachable` the hosts that did
    not answer, with the reason.
    """

    items: list[LogEntry]
    next: Place | None
    unrecorded: list[UnrecordedPackets]
    unreachable: dict[str, str]


class _Read(NamedTuple):
    """What a host answered."""

    records: list[LogEntry]
    unrecorded: list[UnrecordedPackets]


def of_agents(asked: LogQuery) -> dict[str, str]:
    """Return what agents are to be asked for, so that they send no more than a page needs."""
    having = {name: text for name, text in asked.having.items() if name != "host"}
    # several records may have the time of the last one of the page before
    return having if asked.before else {**having, "limit": str(asked.limit + 1)}


def page(replies: Mapping[str, bytes], unreachable: Mapping[str, str], asked: LogQuery) -> LogPage:
    """Return the newest records that are asked for. `replies` is by host."""
    read, unread = _read(replies)
    records = [one for answer in read.values() for one in answer.records if _fits(one, asked)]
    records.sort(key=_place, reverse=True)
    older = (one for one in records if asked.before is None or _place(one) < asked.before)
    found = list(islice(older, asked.limit + 1))
    shown = found[: asked.limit]
    return LogPage(
        items=[_shown(one, asked.tenants) for one in shown],
        next=_place(shown[-1]) if len(found) > asked.limit else None,
        unrecorded=[
            one for answer in read.values() for one in answer.unrecorded if _fits(one, asked)
        ],
        unreachable=dict(sorted({**unreachable, **unread}.items())),
    )


def _fits(one: Mapping[str, Any], asked: LogQuery) -> bool:
    # what is unrecorded has no action
    wanted = all(one.get(name, text) == text for name, text in asked.having.items())
    return wanted and (asked.tenants is None or one["tenant"] in asked.tenants)


def _place(one: LogEntry) -> Place:
    return one["at"], one["host"], one["number"]


def _shown(one: LogEntry, tenants: Collection[str] | None) -> LogEntry:
    """Return a record, without the names of what is of tenants that the client may not see."""
    if tenants is None:
        return one
    return {
        **one,
        "source": _hidden(one["source"], tenants),
        "destination": _hidden(one["destination"], tenants),
    }


def _hidden(end: LogEnd, tenants: Collection[str]) -> LogEnd:
    """Return an end, without its names if it is of another tenant."""
    if end["tenant"] in tenants:
        return end
    return {**end, "tenant": "", "network": "", "group": "", "endpoint": "", "container": ""}


def _read(replies: Mapping[str, bytes]) -> tuple[dict[str, _Read], dict[str, str]]:
    """Return the answers, and why hosts have none; a host with a missing bridge counts as such."""
    read: dict[str, _Read] = {}
    unread: dict[str, str] = {}
    for host, body in replies.items():
        try:
            answer = agent_answers.read(host, "a policy log", body, _ANSWER)
        except AgentUnavailable as exc:
            unread[host] = str(exc)
            continue
        read[host] = _Read(
            records=[{"host": host, **one} for one in answer["records"]],
            unrecorded=[{"host": host, **one} for one in answer["unrecorded"]],
        )
        if answer["missing"]:
            unread[host] = "; ".join(
                f"{bridge}: {why}" for bridge, why in answer["missing"].items()
            )
    return read, unread
