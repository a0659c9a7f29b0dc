"""Reads what `iptables -S` says of a table into rules that can be followed. Pure.

In come the lines of a table, out come its chains (`netplugin.kernel.firewall.packet_rules`). What
is not known here, a match of a module, is a condition of which nothing is known; the rule stays
what it is. Next is `netplugin.kernel.firewall.foreign_rules`.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final

from netplugin.kernel.firewall.firewall_watch import OWN_CHAINS
from netplugin.kernel.firewall.packet_rules import (
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
)

OWN_COMMENT: Final = "contiv"
"""What the comments of the agent's rules begin with."""
_VERDICTS: Final = {
    "ACCEPT": PacketVerdict.ACCEPT,
    "DROP": PacketVerdict.DROP,
    "REJECT": PacketVerdict.DROP,
    "RETURN": PacketVerdict.RETURN,
    "NOTRACK": PacketVerdict.UNTRACK,
    # a program is asked, of which nothing is known
    "NFQUEUE": PacketVerdict.ACCEPT,
    "QUEUE": PacketVerdict.ACCEPT,
}
_NO_CONDITION: Final = frozenset({"-m", "--comment", "--reject-with"})
"""Words with one argument, by which a rule is about no fewer packets."""
_OF_SOME: Final = frozenset({"--mode", "--probability", "--every", "--packet", "--limit"})
"""Options of the matches `statistic` and `limit`: they are true of some packets of any kind."""


@dataclass(slots=True)
class Listed:
    """A table: the rules of each chain, and the policies of those of the kernel."""

    rules: dict[str, list[PacketRule]] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Listed:
    """Return the table that `iptables -S` has listed."""
    listed = Listed()
    for line in text.splitlines():
        what, _, rest = line.partition(" ")
        chain, _, more = rest.partition(" ")
        if what == "-P":
            listed.policies[chain] = more
        elif what == "-A":
            listed.rules.setdefault(chain, []).append(rule(line))
    return listed


def rule(line: str) -> PacketRule:
    """Return the rule of a line."""
    try:
        words = shlex.split(line)[2:]
    except ValueError:  # quotes that nobody closes, in a comment
        return PacketRule(text=line, verdict=PacketVerdict.NOTHING)
    conditions, target, left = [], "", iter(words)
    verdict, own, inverted = PacketVerdict.NOTHING, False, False
    for word in left:
        if word == "!":
            inverted = True
            continue
        if word in ("-j", "-g"):
            target = next(left, "")
            verdict = _verdict(word, target, words)
            break
        if word == "--comment":
            own = own or next(left, "").startswith(OWN_COMMENT)
        elif word in _NO_CONDITION:
            next(left, "")
        elif word.startswith("-"):
            found = _condition(word, left)
            conditions.append(negated(found) if inverted else found)
        inverted = False
    own = own or target.startswith(OWN_CHAINS)
    return PacketRule(text=line, verdict=verdict, conditions=tuple(conditions), to=target, own=own)


def _verdict(how: str, target: str, words: Sequence[str]) -> PacketVerdict:
    if target == "CT":
        return PacketVerdict.UNTRACK if "--notrack" in words else PacketVerdict.NOTHING
    if target in _VERDICTS:
        return _VERDICTS[target]
    # targets that only change or note a packet have no chain, and lead nowhere
    return PacketVerdict.GOTO if how == "-g" else PacketVerdict.JUMP


def _condition(word: str, left: Iterator[str]) -> Condition:
    if word in _OF_SOME:
        next(left, "")
        return sometimes
    made = _CONDITIONS.get(word)
    return unknown if made is None else made(next(left, ""))


def _address(end: str) -> Callable[[str], Condition]:
    def made(text: str) -> Condition:
        try:
            return address(end, [ip_network(text, strict=False)])
        except ValueError:  # a mask with holes
            return unknown

    return made


def _link(which: str) -> Callable[[str], Condition]:
    return lambda name: link(which, f"{name[:-1]}*" if name.endswith("+") else name)


def _states(text: str) -> Condition:
    return state(text.split(","))


_CONDITIONS: Final[Mapping[str, Callable[[str], Condition]]] = {
    "-s": _address("source"),
    "-d": _address("target"),
    "-i": _link("in"),
    "-o": _link("out"),
    "-p": lambda name: protocol([name]),
    "--ctstate": _states,
    "--state": _states,
}
