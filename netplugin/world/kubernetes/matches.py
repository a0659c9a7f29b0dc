"""Resolved rules as conjunctive matches of a switch (pure).

A rule has up to three clauses: subjects, peers, ports. Each clause is a set of matches, each match
names the rules and clauses it is in, and one more flow per rule has the verdict. So a rule costs
the sum of its clauses' sizes, not their product, and rules share matches (ovs-fields(7),
"Conjunctive Match Fields").
"""

# Open vSwitch does not allow a match to have both conjunctions and a verdict. A rule of one clause
# (any peer, any port) has its verdict on the matches of its subjects; these are one priority above
# the conjunctive ones of the same place. Rules of one place have the same verdict, so the order
# between the two does not matter.

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

from netplugin.world.kubernetes.rules import (
    INGRESS_STAGES,
    MAX_PORT,
    PeerAddress,
    PodAddress,
    PortSpan,
    ResolvedRule,
)
from ofnet.world import Membership, PolicyMatch, PolicyStage, Verdict

ISOLATED: Final = 10
"""The priority that drops what no NetworkPolicy allows an isolated pod."""
ALLOWED: Final = 100
"""The priority of NetworkPolicies' rules; those of one clause have one more."""
FIRST: Final = 60_000
"""The priority of the first administrator's rule; each further one has two less."""
MAX_RULES: Final = (FIRST - ALLOWED) // 2
"""How many rules administrators' policies of one kind may have."""


Part = Membership | Verdict


def conjunction_id(name: str) -> int:
    """Return the 32-bit number of a rule, never 0; two names may collide."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) or 1


def priority(rule: ResolvedRule) -> int:
    """Return the priority of a rule's conjunctive matches."""
    if rule.stage in {PolicyStage.INGRESS, PolicyStage.EGRESS}:
        return ALLOWED
    return FIRST - 2 * rule.order


def parts(rule: ResolvedRule, conjunction: int) -> Iterator[tuple[PolicyMatch, Part]]:
    """Yield the matches of a rule, each with its part in it."""
    level = priority(rule)
    clauses = [list(_ends(rule, rule.subjects, level, subjects=True))]
    if rule.peers is not None:
        clauses.append(list(_ends(rule, rule.peers, level, subjects=False)))
    if rule.ports is not None:
        versions = {one.address.version for one in rule.subjects}
        clauses.append(list(_ports(rule.stage, rule.ports, level, versions)))
    if len(clauses) == 1:
        for match in clauses[0]:
            yield match._replace(priority=level + 1), rule.verdict
        return
    for number, clause in enumerate(clauses, start=1):
        for match in clause:
            yield match, Membership(conjunction, number, len(clauses))
    verdict = PolicyMatch(stage=rule.stage, priority=level, conjunction=conjunction)
    yield verdict, rule.verdict


def isolation(
    stage: PolicyStage, subjects: Iterable[PodAddress]
) -> Iterator[tuple[PolicyMatch, Part]]:
    """Yield the matches that drop what no rule of a stage allows."""
    for subject in subjects:
        yield _end(stage, subject, ISOLATED, subject=True), Verdict.DENY


def _ends(
    rule: ResolvedRule, addresses: Iterable[PeerAddress], level: int, *, subjects: bool
) -> Iterator[PolicyMatch]:
    for address in addresses:
        yield _end(rule.stage, address, level, subject=subjects)


def _end(stage: PolicyStage, address: PeerAddress, level: int, *, subject: bool) -> PolicyMatch:
    is_destination = subject == (stage in INGRESS_STAGES)
    vrf, where = address if isinstance(address, PodAddress) else (0, address)
    return PolicyMatch(
        stage=stage,
        priority=level,
        vrf=vrf,
        source=None if is_destination else where,
        destination=where if is_destination else None,
    )


def _ports(
    stage: PolicyStage, ports: Iterable[PortSpan], level: int, versions: Iterable[int]
) -> Iterator[PolicyMatch]:
    for version in sorted(versions):
        for span in ports:
            for port, mask in masks(span.first, span.last):
                yield PolicyMatch(
                    stage=stage,
                    priority=level,
                    version=version,
                    protocol=span.protocol,
                    port=port,
                    port_mask=mask,
                )


def masks(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the values and masks that together match the ports `first` to `last`.

    The whole range is one mask of 0, which matches without looking at the port.
    """
    while first <= last:
        size = (first & -first) or MAX_PORT + 1
        while first + size - 1 > last:
            size //= 2
        yield first, MAX_PORT & ~(size - 1)
        first += size
