"""A few rules to be tried with real packets: any two choices of what a rule can be meet in one.

`pairwise_cases` picks from all combinations, always in the same way; each case has a name that says
what it is, so that it can be run alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final, Literal

from ofnet.tables import Mode
from tests.model.policy_oracle import UserRule

Choice = tuple[str, str]
"""A dimension and the choice that was made in it."""

DIMENSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "mode": tuple(Mode),
    "direction": ("in", "out"),
    "action": ("allow", "deny"),
    "priority": ("above", "below"),
    "end": ("anybody", "group", "network", "address"),
    "protocol": ("any", "tcp", "udp", "icmp"),
    "port": ("no-port", "port"),
    "family": ("ipv4", "ipv6"),
    "place": ("local", "remote"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One combination. The rule stands beside one that does the opposite for all packets.

    `priority` is to be read against that other rule, `place` is where the other pod runs.
    """

    mode: Mode
    direction: Literal["in", "out"]
    action: Literal["allow", "deny"]
    priority: Literal["above", "below"]
    end: Literal["anybody", "group", "network", "address"]
    protocol: Literal["any", "tcp", "udp", "icmp"]
    port: Literal["no-port", "port"]
    family: Literal["ipv4", "ipv6"]
    place: Literal["local", "remote"]

    @property
    def name(self) -> str:
        """What the case is, in words that a test can be selected by."""
        return "-".join(str(getattr(self, name)) for name in DIMENSIONS)

    def rules(self, *, port: int, group: str, network: str, address: str) -> tuple[UserRule, ...]:
        """Return the rule, made of what the other end is called, and the one beside it."""
        named = {"group": group, "network": network, "address": address}
        rule = UserRule(
            name="this",
            direction=self.direction,
            action=self.action,
            priority=100 if self.priority == "above" else 1,
            protocol="" if self.protocol == "any" else self.protocol,
            port=port if self.port == "port" else 0,
            audit=False,
            **{name: value for name, value in named.items() if name == self.end},
        )
        contrary: Literal["allow", "deny"] = "deny" if self.action == "allow" else "allow"
        rest = UserRule(name="all", direction=self.direction, action=contrary, priority=50)
        return rule, rest


def pairwise_cases() -> Iterator[Case]:
    """Yield cases until every two choices of different dimensions have met; greedily, few."""
    candidates = {choices: _pairs(choices) for choices in _combinations()}
    missing = set().union(*candidates.values())
    while missing:
        best = max(candidates, key=lambda choices: len(missing & candidates[choices]))
        missing -= candidates[best]
        yield _case(best)


def _combinations() -> Iterator[tuple[Choice, ...]]:
    named = (product([dimension], words) for dimension, words in DIMENSIONS.items())
    return product(*named)


def _pairs(choices: tuple[Choice, ...]) -> frozenset[tuple[Choice, Choice]]:
    return frozenset(combinations(choices, 2))


def _case(choices: tuple[Choice, ...]) -> Case:
    words = dict(choices)
    return Case(**{**words, "mode": Mode(words["mode"])})  # type: ignore[arg-type] # as DIMENSIONS
