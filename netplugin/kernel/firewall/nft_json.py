"""Reads the rules that `nft -j` lists into such that can be followed. Pure.

In comes what is listed of a chain, out come its rules (`netplugin.kernel.firewall.packet_rules`).
What is not known here is a condition of which nothing is known. Next is
`netplugin.kernel.firewall.foreign_rules`.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any, Final

from netplugin.kernel.firewall.packet_rules import (
    Block,
    Condition,
    PacketRule,
    PacketVerdict,
    address,
    link,
    negated,
    protocol,
    sometimes,
    state,
    unknown,
    version,
)

_VERDICTS: Final = {
    "accept": PacketVerdict.ACCEPT,
    "drop": PacketVerdict.DROP,
    "reject": PacketVerdict.DROP,
    "return": PacketVerdict.RETURN,
    "notrack": PacketVerdict.UNTRACK,
    "jump": PacketVerdict.JUMP,
    "goto": PacketVerdict.GOTO,
    # a program is asked, of which nothing is known
    "queue": PacketVerdict.ACCEPT,
}
_NO_CONDITION: Final = frozenset({"counter", "log", "mangle", "set", "comment"})
_OF_SOME: Final = frozenset({"limit", "quota"})
_LINKS: Final = {"iif": "in", "iifname": "in", "oif": "out", "oifname": "out"}
_ENDS: Final = {"saddr": "source", "daddr": "target"}
_VERSIONS: Final = {"ip": 4, "ip6": 6}
_FAMILIES: Final = {"ipv4": 4, "ipv6": 6}


def rules(listed: Mapping[str, Any]) -> Iterator[PacketRule]:
    """Yield the rules of a listed chain, each with its handle as text."""
    for one in listed.get("nftables", ()):
        if isinstance(about := one.get("rule"), dict):
            yield _rule(about)


def _rule(about: Mapping[str, Any]) -> PacketRule:
    conditions: list[Condition] = []
    for statement in about.get("expr", ()):
        # a statement has one key, its kind
        for kind, what in statement.items() if isinstance(statement, dict) else ():
            if kind in _VERDICTS:
                to = what.get("target", "") if isinstance(what, dict) else ""
                return PacketRule(
                    text=str(about.get("handle", "")),
                    verdict=_VERDICTS[kind],
                    conditions=tuple(conditions),
                    to=str(to),
                )
            if kind == "match":
                conditions += _conditions(what)
            elif kind in _OF_SOME:
                conditions.append(sometimes)
            elif kind not in _NO_CONDITION:
                conditions.append(unknown)
    return PacketRule(text=str(about.get("handle", "")), verdict=PacketVerdict.NOTHING)


def _conditions(match: Mapping[str, Any]) -> Iterator[Condition]:
    left, right = match.get("left"), match.get("right")
    opposite = match.get("op") == "!="
    if match.get("op") not in ("==", "!=", "in") or not isinstance(left, dict):
        yield sometimes if isinstance(left, dict) and "numgen" in left else unknown
        return
    of = left.get("payload")
    if isinstance(of, dict) and of.get("protocol") in _VERSIONS:
        # also of the opposite: another family has no such addresses at all
        yield version(_VERSIONS[of["protocol"]])
    found = _condition(left, _values(right))
    yield negated(found) if opposite else found


def _condition(left: Mapping[str, Any], values: list[Any] | None) -> Condition:
    if "numgen" in left:
        return sometimes
    found: Condition = unknown
    match left if values is not None else None:
        case {"meta": {"key": key}} if key in _LINKS:
            found = _any([link(_LINKS[key], str(one)) for one in values or ()])
        case {"meta": {"key": "l4proto"}} | {"payload": {"field": "protocol" | "nexthdr"}}:
            found = protocol(map(str, values or ()))
        case {"meta": {"key": "nfproto"}}:
            found = _any([version(_FAMILIES.get(str(one), 0)) for one in values or ()])
        case {"ct": {"key": "state" | "status"}}:
            found = state(map(str, values or ()))
        case {"payload": {"field": field}} if field in _ENDS:
            blocks = [_block(one) for one in values or ()]
            known = [one for one in blocks if one is not None]
            found = address(_ENDS[field], known) if len(known) == len(blocks) else unknown
        case _:
            pass
    return found


def _any(found: list[Condition]) -> Condition:
    return found[0] if len(found) == 1 else unknown


def _values(right: Any) -> list[Any] | None:
    """Return the values that something is compared with; None if they are not all known."""
    if isinstance(right, dict) and isinstance(right.get("set"), list):
        right = right["set"]
    values = right if isinstance(right, list) else [right]
    named = any(isinstance(one, str) and one.startswith("@") for one in values)
    return None if named or not values else values


def _block(value: Any) -> Block | None:
    if isinstance(value, dict) and isinstance(prefix := value.get("prefix"), dict):
        value = f"{prefix.get('addr')}/{prefix.get('len')}"
    try:
        return ip_network(str(value), strict=False)
    except ValueError:  # a range, an expression
        return None
