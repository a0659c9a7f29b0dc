"""Translates a rule of the agent from iptables' words to nftables'. Pure.

In come the words of a rule as the agent writes them, and the table of its chain; out come one or
more rules of nftables (iptables has matches that are true of either of two things). It knows the
words that the agent uses and no others: an unknown one is an error, never passed over. Next is
`netplugin.kernel.firewall.nft_tables`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.errors import Invalid

PREFIX: Final = "contiv"
BUILTIN: Final = frozenset({"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"})

_STATUSES: Final = frozenset({"DNAT", "SNAT"})
_WITH_OPTIONS: Final = frozenset({"DNAT", "SNAT", "MARK", "REJECT"})
_PROTOCOLS: Final = frozenset({"tcp", "udp", "sctp"})
_MODULES: Final = _PROTOCOLS | {"comment", "addrtype", "conntrack", "mark", "recent", "statistic"}
_SHARES: Final = 1_000_000
"""How finely probabilities are told apart."""


def chain_name(table: str, chain: str) -> str:
    """Return the name in nftables of a chain in a table of iptables."""
    return f"{PREFIX}-{table}-{chain}"


def set_name(recent: str) -> str:
    """Return the name of the set for a list of the match `recent`."""
    return f"{PREFIX}-{recent}"


def affinity(words: Sequence[str]) -> tuple[str, int] | None:
    """Return the list that a rule looks a client up in, and for how many seconds one stays."""
    if "--rcheck" not in words:
        return None
    return words[words.index("--name") + 1], int(words[words.index("--seconds") + 1])


@dataclass(slots=True)
class _Rule:
    """What has been translated so far: `ways` are the alternatives, each a list of matches."""

    version: int
    table: str
    seconds: Mapping[str, int]
    ways: list[list[str]] = field(default_factory=lambda: [[]])
    protocol: str = ""
    ported: bool = False
    recent: str = ""
    remembers: bool = False
    negated: bool = False
    """What the next word says is to be false."""

    @property
    def negation(self) -> str:
        return "!= " if self.negated else ""

    @property
    def ip(self) -> str:
        return "ip" if self.version == 4 else "ip6"

    def match(self, *alternatives: str) -> None:
        self.ways = [[*way, one] for way in self.ways for one in alternatives]


def translate(
    words: Sequence[str], version: int, table: str, seconds: Mapping[str, int]
) -> list[str]:
    """Return the rules of nftables for one of iptables; `seconds` by the names of recent lists.

    Raises Invalid for a word that is not known here.
    """
    rule, left = _Rule(version, table, seconds), iter(words)
    target = ""
    for word in left:
        if word == "!":
            rule.negated = True
            continue
        if word == "-j":
            target = _target(rule, next(left), left)
            break
        _OPTIONS.get(word, _unknown(word))(rule, left)
        rule.negated = rule.negated and word == "-m"
    if not (target or rule.remembers) or next(left, None) is not None:
        raise Invalid(f"rule cannot be translated to nftables: {' '.join(words)}")
    if rule.protocol and not rule.ported:
        rule.match(f"meta l4proto {rule.protocol}")
    return [" ".join([*way, target]).strip() for way in rule.ways]


_Option = Callable[[_Rule, Iterator[str]], None]


def _unknown(word: str) -> _Option:
    def fail(_rule: _Rule, _left: Iterator[str]) -> None:
        raise Invalid(f"word {word} of a rule cannot be translated to nftables")

    return fail


def _module(_rule: _Rule, left: Iterator[str]) -> None:
    if (name := next(left)) not in _MODULES:
        raise Invalid(f"match {name} of a rule cannot be translated to nftables")


def _address(side: str) -> _Option:
    def match(rule: _Rule, left: Iterator[str]) -> None:
        rule.match(f"{rule.ip} {side} {rule.negation}{next(left)}")

    return match


def _link(side: str) -> _Option:
    def match(rule: _Rule, left: Iterator[str]) -> None:
        name = next(left)
        shown = f"{name[:-1]}*" if name.endswith("+") else name
        rule.match(f'{side} {rule.negation}"{shown}"')

    return match


def _protocol(rule: _Rule, left: Iterator[str]) -> None:
    rule.protocol = next(left)
    if rule.protocol not in _PROTOCOLS:
        raise Invalid(f"protocol {rule.protocol} of a rule cannot be translated to nftables")


def _port(rule: _Rule, left: Iterator[str]) -> None:
    rule.ported = True
    rule.match(f"{rule.protocol} dport {next(left).replace(':', '-')}")


def _type(side: str) -> _Option:
    def match(rule: _Rule, left: Iterator[str]) -> None:
        kind = next(left)
        if kind not in {"LOCAL", "BROADCAST", "MULTICAST"}:
            raise Invalid(f"address type {kind} of a rule cannot be translated to nftables")
        rule.match(f"fib {side} type {rule.negation}{kind.lower()}")

    return match


def _state(rule: _Rule, left: Iterator[str]) -> None:
    asked = next(left).split(",")
    states = ",".join(one.lower() for one in asked if one not in _STATUSES)
    statuses = [one.lower() for one in asked if one in _STATUSES]
    found = [f"ct state {rule.negation}{{ {states} }}"] if states else []
    found += [f"ct status & {one} {'==' if rule.negated else '!='} 0" for one in statuses]
    if rule.negated:
        rule.match(" ".join(found))  # none of them
    else:
        rule.match(*found)


def _status(rule: _Rule, left: Iterator[str]) -> None:
    asked = next(left)
    if asked not in {"CONFIRMED", "ASSURED"}:
        raise Invalid(f"status {asked} of a rule cannot be translated to nftables")
    rule.match(f"ct status & {asked.lower()} {'==' if rule.negated else '!='} 0")


def _direction(rule: _Rule, left: Iterator[str]) -> None:
    rule.match(f"ct direction {next(left).lower()}")


def _mark(rule: _Rule, left: Iterator[str]) -> None:
    value, _, mask = next(left).partition("/")
    masked = f"meta mark & {mask}" if mask else "meta mark"
    rule.match(f"{masked} {'!=' if rule.negated else '=='} {value}")


def _comment(_rule: _Rule, left: Iterator[str]) -> None:
    next(left)


def _share(rule: _Rule, left: Iterator[str]) -> None:
    part = round(float(next(left)) * _SHARES)
    rule.match(f"numgen random mod {_SHARES} < {max(1, part)}")


def _mode(_rule: _Rule, left: Iterator[str]) -> None:
    if (mode := next(left)) != "random":
        raise Invalid(f"mode {mode} of a rule cannot be translated to nftables")


def _recent(rule: _Rule, left: Iterator[str]) -> None:
    rule.recent = next(left)


def _look_up(rule: _Rule, _left: Iterator[str]) -> None:
    rule.match(f"{rule.ip} saddr @{set_name(rule.recent)}")


def _remember(rule: _Rule, _left: Iterator[str]) -> None:
    rule.remembers = True
    timeout = rule.seconds.get(rule.recent)
    if timeout is None:
        raise Invalid(f"no rule says for how long {rule.recent} remembers its clients")
    rule.match(f"update @{set_name(rule.recent)} {{ {rule.ip} saddr timeout {timeout}s }}")


def _nothing(_rule: _Rule, _left: Iterator[str]) -> None:
    """Pass over what is said elsewhere."""


_OPTIONS: Final[Mapping[str, _Option]] = {
    "-m": _module,
    "-s": _address("saddr"),
    "-d": _address("daddr"),
    "-i": _link("iifname"),
    "-o": _link("oifname"),
    "-p": _protocol,
    "--dport": _port,
    "--src-type": _type("saddr"),
    "--dst-type": _type("daddr"),
    "--ctstate": _state,
    "--ctstatus": _status,
    "--ctdir": _direction,
    "--mark": _mark,
    "--comment": _comment,
    "--mode": _mode,
    "--probability": _share,
    "--name": _recent,
    "--rcheck": _look_up,
    "--seconds": _comment,
    "--reap": _nothing,
    "--set": _remember,
}


def _target(rule: _Rule, name: str, left: Iterator[str]) -> str:
    more = [next(left, ""), next(left, "")] if name in _WITH_OPTIONS else ["", ""]
    match [name, *more]:
        case ["ACCEPT" | "DROP" | "RETURN" | "MASQUERADE", _, _]:
            return name.lower()
        case ["DNAT", "--to-destination", to] | ["SNAT", "--to-source", to]:
            return f"{name.lower()} to {to}"
        case ["MARK", "--set-xmark", mark]:
            value, _, mask = mark.partition("/")
            kept = 0xFFFFFFFF & ~int(mask or "0xffffffff", 16)
            return f"meta mark set meta mark & {kept:#010x} ^ {value}"
        case ["REJECT", "", ""]:
            return "reject"
        case ["REJECT", "--reject-with", "tcp-reset"]:
            return "reject with tcp reset"
        case _:
            pass
    if name.startswith(PREFIX.upper()):
        return f"jump {chain_name(rule.table, name)}"
    raise Invalid(f"target {' '.join([name, *more])} cannot be translated to nftables")
