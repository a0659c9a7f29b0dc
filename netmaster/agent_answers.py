"""Reads what agents answer, within limits: an agent may be compromised. Pure.

In comes an answer's body and the shape that it shall have; out comes data of that shape, or an
AgentUnavailable that blames this one host. Calls come from `netmaster.api.leader.agents`; the
shapes are where the answers are used.
"""

from typing import Annotated, Any, Final, NotRequired, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from core.errors import AgentUnavailable
from core.outside_json import read_json

DEEPEST: Final = 32
"""How many lists and objects may be inside of each other."""
LARGEST_COUNT: Final = 10**18 - 1
MOST_STEPS: Final = 10_000
"""Steps, exits and faults in a host's part of a trace."""
_SHOWN: Final = 80

Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST_COUNT)]
"""A number of packets, bytes, flows; it has at most 18 digits."""
Text = Annotated[str, Field(strict=True, max_length=65536)]
Name = Annotated[str, Field(strict=True, max_length=1024)]
Flag = Annotated[bool, Field(strict=True)]

T = TypeVar("T")


def read(host: str, what: str, body: bytes, shape: TypeAdapter[T]) -> T:
    """Return the data in a host's answer, which is to be `what`.

    Raises AgentUnavailable for what is no JSON of this shape, has a number without end or beyond
    64 bits, or is nested too deeply.
    """
    try:
        return shape.validate_python(read_json(body, deepest=DEEPEST))
    except ValidationError as exc:
        (first, *_) = exc.errors(include_url=False, include_input=False, include_context=False)
        at = ".".join(map(str, first["loc"]))[:_SHOWN]
        raise _unread(host, what, body, f"{at}: {first['msg']}" if at else first["msg"]) from exc
    except ValueError as exc:
        raise _unread(host, what, body, str(exc)) from exc


def _unread(host: str, what: str, body: bytes, why: str) -> AgentUnavailable:
    return AgentUnavailable(f"host {host}: not {what}: {why[: _SHOWN * 2]}: {body[:_SHOWN]!r}")


@with_config(ConfigDict(extra="allow"))
class TraceStep(TypedDict):
    """A table that a packet passed; what else is in it is shown as it is."""

    kind: Name
    owner: Text
    why: Text
    flow: Text
    table: Annotated[int, Field(strict=True)]
    tableName: Name
    does: NotRequired[Text]


@with_config(ConfigDict(extra="allow"))
class TraceExit(TypedDict):
    """Where a packet left a host's switch."""

    kind: Name
    name: Name
    port: Annotated[int, Field(strict=True)]
    packet: dict[str, Any]
    answer: NotRequired[dict[str, Any]]


@with_config(ConfigDict(extra="allow"))
class TraceHop(TypedDict):
    """What a host does with a packet (`netplugin.trace.tracer`)."""

    host: Name
    faults: Annotated[list[Text], Field(max_length=MOST_STEPS)]
    bridge: NotRequired[Name]
    mode: NotRequired[Name]
    packet: NotRequired[dict[str, Any]]
    steps: NotRequired[Annotated[list[TraceStep], Field(max_length=MOST_STEPS)]]
    exits: NotRequired[Annotated[list[TraceExit], Field(max_length=MOST_STEPS)]]
    notes: NotRequired[
        Annotated[
            list[Text],
            Field(
                max_length=MOST_STEPS,
                description="other faults of the host, which do not stop this packet",
            ),
        ]
    ]


HOP: Final = TypeAdapter(TraceHop)
