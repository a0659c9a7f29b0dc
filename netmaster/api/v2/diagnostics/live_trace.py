"""Answers `POST /api/v2/trace`: a trace, and a packet that is really sent on the same way.

`netmaster.api.v2.diagnostics.trace` says what should become of the packet, and which hosts are on
its way. Their agents look for a mark on all links (`netplugin.diagnostics.live_trace`); the
sender's sends the packet in its endpoint's name. `netmaster.plan.show.live_verdict` says what
became of it.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, NotRequired
from urllib.parse import urlencode

from aiohttp import ClientError, ClientResponse, web
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from core.errors import AgentUnavailable, Invalid
from core.patience import patient
from netmaster import agent_answers
from netmaster.agent_answers import Flag, Name, Text
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.v2.diagnostics import trace
from netmaster.api.v2.diagnostics.trace import PROTOCOLS, SOURCE_PORT, Trace
from netmaster.auth import audit
from netmaster.plan.show.live_verdict import live_verdict
from netmaster.plan.show.trace_ends import TraceEnd
from netmaster.plan.show.trace_verdict import TraceVerdict

SIGHTINGS: Final = "/inspect/sightings"
TRACED: Final = patient(2.0)
"""Seconds for the trace; with what follows it is less than 5."""
BEGUN: Final = patient(1.0)
"""Seconds for each host to begin looking, and for the sender's to send."""
LOOKED: Final = BEGUN + 1.0
"""Seconds for which a host looks for the packet: it is sent when the last one has begun."""
SENT: Final = frozenset({PROTOCOLS["icmp"], PROTOCOLS["tcp"]})
"""What no process sees: echo requests, and TCP's first packet."""
LONGEST: Final = 1 << 20
"""Bytes of a host's sightings."""
_MARK: Final = 8
_PORTS: Final = (49152, 65536)
"""A client's port that is drawn, so that no connection is known by the packet's ports."""


class Sighting(TypedDict):
    """A link on which a packet or its answer was seen."""

    link: Name
    direction: Name
    endpoint: Name
    answer: Flag
    what: NotRequired[Text]
    """What an answer says; agents of earlier releases do not tell, and see none of TCP's."""


class LiveOutcome(TypedDict):
    """What became of the packet that was sent."""

    outcome: str
    verdict: str
    seen: dict[str, list[Sighting]]
    unreachable: Annotated[
        dict[str, str], Field(description="the hosts that did not look, with the reason")
    ]


class LiveTrace(Trace):
    """A trace, and what became of a packet that was sent."""

    live: LiveOutcome


OPERATION: Final = OperationDoc(
    summary="trace and send a packet", tag="trace", answer=LiveTrace, query=trace.QUERY
)
_SIGHTINGS: Final = TypeAdapter(list[Sighting])


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a trace and what became of a packet. Raises Invalid, NotFound as a trace does."""
    asked = trace.read_query(request.query)
    if asked.talk()["protocol"] not in SENT:
        raise Invalid("only icmp and tcp are sent: others would reach a process")
    if asked.sport == SOURCE_PORT:
        low, high = _PORTS
        asked = replace(asked, sport=str(low + secrets.randbelow(high - low)))
    source, destination = await trace.find_ends(leader, request, asked)
    if source.kind != "endpoint":
        raise Invalid(f"{source.text} is no endpoint: a packet is sent in the name of one")
    question = trace.first_question(source, destination, asked)
    shown = await trace.trace(trace.asking(leader, TRACED), source, destination, asked)
    who = request.access.who if request.access else None
    origin = request.access.origin if request.access else None
    audit.packet_sent(origin, who, endpoint=source.key, host=source.host)
    live = await send(leader, question, _way(shown, destination), source, destination)
    both: LiveTrace = {**shown, "live": live}
    return json_reply(both)


async def send(
    leader: LeaderContext,
    question: tuple[str, Mapping[str, Any]],
    way: list[str],
    source: TraceEnd,
    to: TraceEnd,
) -> LiveOutcome:
    """Send a packet and return where it was seen; `question` is for the first host of its way."""
    mark = secrets.token_hex(_MARK)
    seen: dict[str, list[Sighting]] = {}
    unreachable: dict[str, str] = {}
    path = f"{SIGHTINGS}?{urlencode({'mark': mark, 'seconds': LOOKED})}"
    async with AsyncExitStack() as stack:
        # An answer that has begun says that its host looks.
        looking: dict[str, ClientResponse] = {}

        async def begin(host: str) -> None:
            try:
                async with asyncio.timeout(BEGUN):
                    opened = leader.agents.stream(host, path, seconds=2 * LOOKED)
                    looking[host] = await stack.enter_async_context(opened)
            except AgentUnavailable as exc:
                unreachable[host] = str(exc).removeprefix(f"host {host}: ")
            except TimeoutError:
                unreachable[host] = "no answer in time"

        await asyncio.gather(*map(begin, way))
        first, asked = question
        failure = f"host {first}: {unreachable[first]}" if first in unreachable else ""
        try:
            if not failure:
                async with asyncio.timeout(BEGUN):
                    await leader.agents.send(first, {**asked, "mark": mark})
        except AgentUnavailable as exc:
            failure = str(exc)
        except TimeoutError:
            failure = f"host {first}: no answer in time"
        if failure:
            return _shown(TraceVerdict("not sent", f"not sent: {failure}"), seen, unreachable)
        read = partial(_read, seen, unreachable)
        await asyncio.gather(*(read(host, reply) for host, reply in looking.items()))
    return _shown(live_verdict(way, seen, unreachable, source, to), seen, unreachable)


async def _read(
    seen: dict[str, list[Sighting]], unreachable: dict[str, str], host: str, reply: ClientResponse
) -> None:
    try:
        body = b"".join([part async for part in _parts(host, reply)])
        seen[host] = agent_answers.read(host, "sightings", body, _SIGHTINGS)
    except (ClientError, TimeoutError, AgentUnavailable) as exc:
        unreachable[host] = f"its answer broke off: {exc}"


async def _parts(host: str, reply: ClientResponse) -> AsyncIterator[bytes]:
    left = LONGEST
    async for part in reply.content.iter_any():
        left -= len(part)
        if left < 0:
            raise AgentUnavailable(f"host {host}: the answer is longer than {LONGEST} bytes")
        yield part


def _shown(
    found: TraceVerdict, seen: Mapping[str, list[Sighting]], unreachable: Mapping[str, str]
) -> LiveOutcome:
    return {
        "outcome": found.outcome,
        "verdict": found.text,
        "seen": dict(seen),
        "unreachable": dict(unreachable),
    }


def _way(shown: Trace, destination: TraceEnd) -> list[str]:
    """Return the hosts that a trace visited, and the receiver's, each once."""
    hosts = [hop["host"] for hop in shown["hops"]]
    if destination.kind == "endpoint":
        hosts.append(destination.host)
    return list(dict.fromkeys(hosts))
