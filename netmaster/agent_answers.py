"""Reads what agents answer, within limits: an agent may be compromised. Pure.

In comes an answer's body and the shape that it shall have; out comes data of that shape, or an
AgentUnavailable that blames this one host. Calls come from `netmaster.api.agents`; the shapes are
where the answers are used.
"""

from math import isfinite
from typing import Annotated, Any, Final, NotRequired, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict

from core.errors import AgentUnavailable

DEEPEST: Final = 32
"""How many lists and objects may be inside of each other."""
GREATEST: Final = 1 << 64
LARGEST_COUNT: Final = 10**18 - 1
MOST_STEPS: Final = 10_000
"""Steps, exits and faults in a host's part of a trace."""
_SHOWN: Final = 80
_OPEN: Final = ConfigDict(extra="allow")

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
        # Deep nesting, long numbers and broken text are refused by the parser itself.
        found = from_json(body, allow_inf_nan=False, cache_strings="none")
        _check(found)
        return shape.validate_python(found)
    except ValidationError as exc:
        (first, *_) = exc.errors(include_url=False, include_input=False, include_context=False)
        at = ".".join(map(str, first["loc"]))[:_SHOWN]
        raise _unread(host, what, body, f"{at}: {first['msg']}" if at else first["msg"]) from exc
    except ValueError as exc:
        raise _unread(host, what, body, str(exc)) from exc


def _check(value: Any) -> None:
    """Raise ValueError for what is too deep or too large. Without recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
            elif isinstance(one, float) and not isfinite(one):
                raise ValueError("a number without end")
            elif isinstance(one, int) and abs(one) >= GREATEST:
                raise ValueError("a number beyond 64 bits")
        if not below:
            return
        level = below
    raise ValueError(f"more than {DEEPEST} levels")


def _unread(host: str, what: str, body: bytes, why: str) -> AgentUnavailable:
    return AgentUnavailable(f"host {host}: not {what}: {why[: _SHOWN * 2]}: {body[:_SHOWN]!r}")


@with_config(_OPEN)
class Step(TypedDict):
    """A table that a packet passed; what else is in it is shown as it is."""

    kind: Name
    owner: Text
    why: Text
    flow: Text
    table: Annotated[int, Field(strict=True)]
    tableName: Name


@with_config(_OPEN)
class Exit(TypedDict):
    """Where a packet left a host's switch."""

    kind: Name
    name: Name
    port: Annotated[int, Field(strict=True)]
    packet: dict[str, Any]
    answer: NotRequired[dict[str, Any]]


@with_config(_OPEN)
class Hop(TypedDict):
    """What a host does with a packet (`netplugin.trace.tracer`)."""

    host: Name
    faults: Annotated[list[Text], Field(max_length=MOST_STEPS)]
    bridge: NotRequired[Name]
    packet: NotRequired[dict[str, Any]]
    steps: NotRequired[Annotated[list[Step], Field(max_length=MOST_STEPS)]]
    exits: NotRequired[Annotated[list[Exit], Field(max_length=MOST_STEPS)]]


HOP: Final = TypeAdapter(Hop)
