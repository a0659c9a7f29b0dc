"""The question of a trace as JSON, read and checked. Pure.

`enter` says where the packet comes in: `{"endpoint": KEY}`, `{"host": ""}`, `{"tunnel": LABEL}`,
`{"uplink": LABEL}`, or `{"port": NUMBER, "bridge": NAME}`. The first two send a packet of their
own, to `to`; with a `source` a host forwards it for that address. The others get `packet`. `before`
are packets that this bridge had before, whose connections are known. `towards` is the endpoint that
should get it, with its host.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from core.errors import Invalid
from ofnet.openflow import oxm
from ofnet.trace.evaluator import PacketFields
from ofnet.trace.packets import CLIENT_PORT, Address, Talk, packet_of
from ofnet.world import Bridge

MOST_BEFORE: Final = 4
_OWN: Final = frozenset({"endpoint", "host"})
_GIVEN: Final = frozenset({"tunnel", "uplink", "port"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A question; either `talk` or `packet` is there."""

    kind: str
    name: str
    bridge: Bridge | None = None
    talk: Talk | None = None
    packet: PacketFields | None = None
    source: Address | None = None
    before: tuple[PacketFields, ...] = ()
    endpoint: str = ""
    host: str = ""


def read(asked: object) -> TraceRequest:
    """Return the question in a decoded body. Raises Invalid."""
    if not isinstance(asked, dict) or not isinstance(asked.get("enter"), dict):
        raise Invalid('a trace needs an object with "enter"')
    enter = asked["enter"]
    kinds = enter.keys() & (_OWN | _GIVEN)
    if len(kinds) != 1:
        raise Invalid(f"enter must have one of {', '.join(sorted(_OWN | _GIVEN))}")
    (kind,) = kinds
    before = asked.get("before", [])
    if not isinstance(before, list) or len(before) > MOST_BEFORE:
        raise Invalid(f"before must be a list of at most {MOST_BEFORE} packets")
    towards = asked.get("towards") or {}
    if not isinstance(towards, dict):
        raise Invalid("towards must be an object")
    return TraceRequest(
        kind=kind,
        name=str(enter[kind])[:255],
        bridge=_bridge(enter) if kind == "port" else None,
        talk=_talk(asked) if kind in _OWN else None,
        packet=packet_of(asked.get("packet")) if kind in _GIVEN else None,
        source=_address(asked, "source") if kind == "host" and "source" in asked else None,
        before=tuple(packet_of(one) for one in before),
        endpoint=str(towards.get("endpoint", ""))[:255],
        host=str(towards.get("host", ""))[:255],
    )


def _bridge(enter: Mapping[str, Any]) -> Bridge:
    try:
        return Bridge(str(enter.get("bridge")))
    except ValueError as exc:
        raise Invalid(f"bridge must be one of {', '.join(Bridge)}") from exc


def _talk(asked: Mapping[str, Any]) -> Talk:
    return Talk(
        to=_address(asked, "to"),
        protocol=_number(asked, "protocol", oxm.PROTO_ICMP, 255),
        port=_number(asked, "port", 0, 65535),
        source_port=_number(asked, "sourcePort", CLIENT_PORT, 65535),
    )


def _address(asked: Mapping[str, Any], name: str) -> Address:
    try:
        return ip_address(str(asked.get(name)))
    except ValueError as exc:
        raise Invalid(f"{name}: {exc}") from exc


def _number(asked: Mapping[str, Any], name: str, default: int, greatest: int) -> int:
    value = asked.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= greatest:
        raise Invalid(f"{name} must be a number from 0 to {greatest}")
    return value
