"""The records of flows of all hosts, newest first, a page at a time. Pure.

In come the answers of the agents' `/inspect/flows` (`netplugin.flow_records.report`); out comes
`GET /api/v2/flows`, and the events of its watch. An answer that cannot be read counts as none.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from core.errors import AgentUnavailable
from netmaster import agent_answers
from netmaster.agent_answers import Count, Flag, Name, Text
from state.flow_records import RecordPlace


@with_config(ConfigDict(title="FlowEnd"))
class FlowEnd(TypedDict):
    """The sender or the receiver of a flow; names are empty where they are not known."""

    address: Name
    port: Count
    tenant: Name
    network: Name
    group: Name
    namespace: Annotated[Name, Field(description="of the pod, in Kubernetes")]
    pod: Name
    endpoint: Name
    container: Name
    labels: dict[Name, Text]


class _Record(TypedDict):
    number: Count
    first: Annotated[Name, Field(description="when it was first seen")]
    last: Annotated[Name, Field(description="its last packet")]
    ended: Annotated[Flag, Field(description="no packet has come for 10 seconds")]
    verdict: Annotated[Name, Field(description="`forwarded` or `dropped`")]
    reason: Annotated[Name, Field(description="why it was dropped, in a word")]
    because: Annotated[Text, Field(description="what dropped it, in words")]
    policy: Annotated[Text, Field(description="the policy that dropped it")]
    rule: Text
    protocol: Name
    source: FlowEnd
    destination: FlowEnd
    service: Annotated[Name, Field(description="the service that the source has asked")]
    serviceAddress: Name
    servicePort: Count
    packets: Annotated[Count, Field(description="of the source")]
    bytes: Annotated[Count, Field(description="of the source, whole frames")]
    answerPackets: Annotated[Count, Field(description="of the destination")]
    answerBytes: Count


class Recording(TypedDict):
    """What each answer about flows tells of the host's records."""

    on: Flag
    lost: dict[Name, Count]


class _Answer(Recording):
    records: list[_Record]
    position: Count


_ANSWER: Final = TypeAdapter(_Answer)


@with_config(ConfigDict(title="Flow"))
class ObservedFlow(_Record):
    """A connection that a host forwarded, or what it dropped of one."""

    host: str


class FlowGaps(TypedDict):
    """What the records of all hosts lack."""

    lost: Annotated[
        dict[str, dict[str, int]],
        Field(description="what the records of hosts lack, by cause (docs/metrics.md)"),
    ]
    off: Annotated[list[str], Field(description="the hosts that record no flows")]
    unreachable: Annotated[
        dict[str, str], Field(description="the hosts that did not answer, with the reason")
    ]


class FlowList(FlowGaps):
    """A page of records of flows."""

    items: list[ObservedFlow]
    next: Annotated[str, Field(description="`after` of the next page; empty at the end")]


def gaps(answers: Mapping[str, Recording], unreachable: Mapping[str, str]) -> FlowGaps:
    """Return what the answers of hosts lack; `unreachable` says why some have none."""
    return {
        "lost": {
            host: dict(one["lost"]) for host, one in answers.items() if any(one["lost"].values())
        },
        "off": [host for host, one in answers.items() if not one["on"]],
        "unreachable": dict(sorted(unreachable.items())),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPage:
    """A page of records, and the place to go on from; None at the end.

    `positions` are those behind what is shown, by host (`state.flow_records.FlowRecord.changed`).
    `short` are the hosts that may have more of the page's records than they were asked for.
    """

    items: list[ObservedFlow]
    next: RecordPlace | None
    gaps: FlowGaps
    positions: dict[str, int]
    short: list[str]


def page(
    replies: Mapping[str, bytes],
    unreachable: Mapping[str, str],
    limit: int,
    tenants: Collection[str] | None = None,
    asked: int | None = None,
) -> FlowPage:
    """Return the newest records of some answers, by host, that a client may see.

    `tenants` are those the client may see, None for all: of others there are no names. `asked` is
    how many records each host was asked for, None for all that it has.
    """
    answers: dict[str, _Answer] = {}
    failed = dict(unreachable)
    for host, body in replies.items():
        try:
            answers[host] = agent_answers.read(host, "records of flows", body, _ANSWER)
        except AgentUnavailable as exc:
            failed[host] = str(exc)
    placed: list[tuple[RecordPlace, ObservedFlow]] = []
    oldest: dict[str, RecordPlace] = {}
    for host, answer in answers.items():
        try:
            own = _placed(host, answer["records"], tenants)
        except ValueError as exc:
            failed[host] = f"host {host}: not a time: {exc}"
            continue
        placed += own
        if own and len(answer["records"]) == asked:
            oldest[host] = min(place for place, _ in own)
    placed.sort(key=_place, reverse=True)
    shown = placed[:limit]
    last = placed[limit][0] if len(placed) > limit else None
    return FlowPage(
        items=[one for _, one in shown],
        next=shown[-1][0] if len(placed) > limit else None,
        gaps=gaps(answers, failed),
        positions={host: one["position"] for host, one in answers.items()},
        short=[host for host, place in oldest.items() if last is None or place > last],
    )


def _place(one: tuple[RecordPlace, ObservedFlow]) -> RecordPlace:
    return one[0]


def _placed(
    host: str, records: Iterable[_Record], tenants: Collection[str] | None
) -> list[tuple[RecordPlace, ObservedFlow]]:
    """Return the records that may be seen, with their places. Raises ValueError."""
    found = []
    for one in records:
        ends = (one["source"], one["destination"])
        if tenants is None or any(end["tenant"] in tenants for end in ends):
            place = RecordPlace.of(one["first"], host, one["number"])
            found.append((place, _shown({"host": host, **one}, tenants)))
    return found


def _shown(one: ObservedFlow, tenants: Collection[str] | None) -> ObservedFlow:
    """Return a record, without the names of what is of tenants that the client may not see."""
    if tenants is None:
        return one
    source, destination = (_hidden(end, tenants) for end in (one["source"], one["destination"]))
    shown: ObservedFlow = {**one, "source": source, "destination": destination}
    if one["destination"]["tenant"] not in tenants:
        # whose policy has dropped it is the business of whoever it protects
        shown |= {"policy": "", "rule": "", "because": ""}
    return shown


def _hidden(end: FlowEnd, tenants: Collection[str]) -> FlowEnd:
    """Return an end, without its names if it is of another tenant."""
    if end["tenant"] in tenants:
        return end
    nameless: FlowEnd = {
        "address": end["address"],
        "port": end["port"],
        "tenant": "",
        "network": "",
        "group": "",
        "namespace": "",
        "pod": "",
        "endpoint": "",
        "container": "",
        "labels": {},
    }
    return nameless
