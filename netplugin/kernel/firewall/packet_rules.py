"""Rules of firewalls as far as they are known, and what becomes of a kind of packet by them. Pure.

In come rules as `netplugin.kernel.firewall.iptables_text` and `netplugin.kernel.firewall.nft_json`
read them, and what host and pods send through the host (`Way`); out goes the rule, or the policy,
that drops it. Next is `netplugin.kernel.firewall.foreign_rules`.

A way stands for many packets, of which some are not known: their ports, for one. So a condition is
true of all of them, of some (a part of the pods, one packet of three), of none, or it is not known
of which. A rule that drops counts if its conditions are true of all or of some: one about ports is
the administrator's will, not a fault. A rule that accepts counts if they are true of all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Network, IPv6Network
from typing import Final

Block = IPv4Network | IPv6Network

OWN_LINKS: Final = "contiv"
"""What the names of the agent's links begin with."""
DEEPEST: Final = 16
"""Chains that lead to each other are followed so far; iptables itself allows no circles."""


class Truth(Enum):
    """Of which packets of a way a condition is true."""

    ALL = auto()
    SOME = auto()
    NONE = auto()
    UNKNOWN = auto()

    @classmethod
    def of(cls, true: object) -> "Truth":
        """Return ALL or NONE."""
        return cls.ALL if true else cls.NONE

    def negated(self) -> "Truth":
        """Return of which packets the opposite is true."""
        return {Truth.ALL: Truth.NONE, Truth.NONE: Truth.ALL}.get(self, self)


class PacketVerdict(Enum):
    """What a rule does with a packet that it is about."""

    ACCEPT = auto()
    DROP = auto()
    UNTRACK = auto()
    """Connection tracking is to pass it over: it is never translated, and dropped for that."""
    RETURN = auto()
    JUMP = auto()
    GOTO = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Packets that the host forwards: `pods` has their sources, or else their targets.

    `into` and `out` are the links by which they come and go; () is not known, but none of the
    agent's. `states` are
    those of connection tracking; None where nothing is tracked yet. `pods` is None if not known.
    """

    title: str
    version: int
    protocol: str
    into: tuple[str, ...]
    out: tuple[str, ...]
    pods: tuple[Block, ...] | None
    from_pods: bool
    states: frozenset[str] | None

    def links(self, which: str) -> tuple[str, ...]:
        """Return the links by which packets come ("in") or go ("out")."""
        return self.into if which == "in" else self.out

    def at_end(self, end: str) -> tuple[Block, ...] | None:
        """Return the addresses at an end, "source" or "target"; None if not known."""
        return self.pods if (end == "source") == self.from_pods else None


Condition = Callable[[Way], Truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRule:
    """A rule, as its program lists it: `conditions` must all be true. `to` is a chain."""

    text: str
    verdict: PacketVerdict
    conditions: tuple[Condition, ...] = ()
    to: str = ""
    own: bool = False
    """The agent made it: what it drops is meant to be."""

    def truth(self, way: Way) -> Truth:
        """Return for which packets of a way all conditions are true."""
        found = {condition(way) for condition in self.conditions}
        for least in (Truth.NONE, Truth.UNKNOWN, Truth.SOME):
            if least in found:
                return least
        return Truth.ALL


@dataclass(frozen=True, slots=True)
class Drop:
    """What drops a way: a rule, by its text and its chain; "" is the policy."""

    chain: str
    rule: str = ""
    rest: bool = True
    """It drops what no rule before it has named, whatever that is."""


def link(which: str, pattern: str) -> Condition:
    """Return whether packets come in or go out by a link; `*` at its end is any rest."""

    def known(way: Way) -> Truth:
        begin = pattern.removesuffix("*")
        exact = begin == pattern
        matched = {one == pattern if exact else one.startswith(begin) for one in way.links(which)}
        if not begin and not exact:
            return Truth.ALL
        if not matched and begin.startswith(OWN_LINKS):
            return Truth.NONE
        return Truth.of(matched.pop()) if len(matched) == 1 else Truth.UNKNOWN

    return known


def address(end: str, blocks: Iterable[Block]) -> Condition:
    """Return whether packets have one of some addresses as source or target."""
    named = tuple(blocks)

    def known(way: Way) -> Truth:
        own = [one for one in named if one.version == way.version]
        if any(one.prefixlen == 0 for one in own):
            return Truth.ALL
        pods = way.at_end(end)
        if pods is None:
            return Truth.UNKNOWN if own else Truth.NONE
        inside = [any(_holds(one, block) for one in own) for block in pods]
        if inside and all(inside):
            return Truth.ALL
        return (
            Truth.SOME if any(one.overlaps(block) for one in own for block in pods) else Truth.NONE
        )

    return known


def _holds(whole: Block, part: Block) -> bool:
    if isinstance(whole, IPv4Network):
        return isinstance(part, IPv4Network) and part.subnet_of(whole)
    return isinstance(part, IPv6Network) and part.subnet_of(whole)


def protocol(names: Iterable[str]) -> Condition:
    """Return whether packets are of one of some protocols."""
    wanted = frozenset(names)
    return lambda way: Truth.of(way.protocol in wanted or "all" in wanted)


def state(names: Iterable[str]) -> Condition:
    """Return whether connection tracking says one of some things of packets."""
    wanted = frozenset(one.upper() for one in names)

    def known(way: Way) -> Truth:
        return Truth.UNKNOWN if way.states is None else Truth.of(not wanted.isdisjoint(way.states))

    return known


def version(number: int) -> Condition:
    """Return whether packets are of a version of IP."""
    return lambda way: Truth.of(way.version == number)


def negated(condition: Condition) -> Condition:
    """Return the opposite of a condition."""
    return lambda way: condition(way).negated()


def sometimes(_way: Way) -> Truth:
    """Say that a condition is true of some packets of whatever kind."""
    return Truth.SOME


def unknown(_way: Way) -> Truth:
    """Say that it is not known what a condition is about."""
    return Truth.UNKNOWN


Lookup = Callable[[str], Iterable[PacketRule]]
"""Returns the rules of a chain, none for one that is not there."""


@dataclass(slots=True)
class _Walk:
    """One way through a chain of the kernel."""

    rules: Lookup
    way: Way
    found: Drop | None = None

    def through(self, chain: str, depth: int = 0) -> bool:
        """Follow a chain; return whether that was the end of the way."""
        for rule in self.rules(chain):
            truth = rule.truth(self.way)
            if truth in (Truth.NONE, Truth.UNKNOWN):
                continue
            match rule.verdict:
                case PacketVerdict.DROP | PacketVerdict.UNTRACK if not rule.own:
                    self.found = Drop(chain, rule.text, rest=not rule.conditions)
                    return True
                case PacketVerdict.JUMP | PacketVerdict.GOTO if not rule.own and depth < DEEPEST:
                    if self.through(rule.to, depth + 1) and (truth is Truth.ALL or self.found):
                        return True
                    if rule.verdict is PacketVerdict.GOTO and truth is Truth.ALL:
                        return False
                case PacketVerdict.ACCEPT if truth is Truth.ALL:
                    return True
                case PacketVerdict.RETURN if truth is Truth.ALL:
                    return False
        return False


def dropped(rules: Lookup, chain: str, way: Way, *, policy: bool) -> Drop | None:
    """Return what drops a way in a chain of the kernel, None for nothing that is known.

    `policy` says whether the chain drops what comes to its end.
    """
    walk = _Walk(rules, way)
    if walk.through(chain):
        return walk.found
    return Drop(chain) if policy else None
