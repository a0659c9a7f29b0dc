"""Opposite-direction rules between two groups with overlapping matches. Pure: no I/O.

A rule of one direction that names a group, and a rule of the other direction that names the first
one's group, can match the very same packets at one priority. For two groups that is one flow, and
the rule with the smaller id has it (`ofnet.ownership`). If groups shared these rules' flows
(`netplugin.world.contiv_policies.policy_classes`), there would be two flows, of which a switch
takes either. So such rules are not shared where they do different things.
"""

# What is compared is less than the match, so that some rules are taken for contrary that are not:
# neither addresses nor groups count. A rule is contrary or not whatever has its policy.

from collections import Counter
from typing import Final, NamedTuple

from core.ids import TenantName
from state.policy_rules import TCP, UDP, Action, Direction, PolicyRule

RuleKey = tuple[TenantName, str, str]
"""Tenant, policy and id of a rule."""

_ICMP: Final = 1
_ICMP6: Final = 58


class _Clause(NamedTuple):
    """What two rules have in common that match the same packets."""

    tenant: TenantName
    priority: int
    protocol: int
    port: int


class _Word(NamedTuple):
    direction: Direction
    action: Action
    log: bool
    audit: bool


class ConflictingRules:
    """The rules that name a group; each change returns the others that it made contrary, or not."""

    def __init__(self) -> None:
        self._rules: dict[_Clause, dict[RuleKey, _Word]] = {}
        self._words: dict[_Clause, Counter[_Word]] = {}

    def has(self, rule: PolicyRule) -> bool:
        """Return whether a rule names a group and may be contradicted."""
        return bool(rule.group) and self._contrary(_clause(rule))

    def replace(self, before: PolicyRule | None, after: PolicyRule | None) -> set[RuleKey]:
        """Put a rule in the place of another, None for none; return those that it affects."""
        clauses = {_clause(one) for one in (before, after) if one is not None and one.group}
        were = {clause: self._contrary(clause) for clause in clauses}
        if before is not None and before.group:
            self._remove(before)
        if after is not None and after.group:
            clause, word = _clause(after), _word(after)
            self._rules.setdefault(clause, {})[_key(after)] = word
            self._words.setdefault(clause, Counter())[word] += 1
        affected: set[RuleKey] = set()
        for clause, was in were.items():
            if self._contrary(clause) != was:
                affected.update(self._rules.get(clause, ()))
        return affected

    def _remove(self, rule: PolicyRule) -> None:
        clause = _clause(rule)
        rules, words = self._rules[clause], self._words[clause]
        word = rules.pop(_key(rule))
        words[word] -= 1
        if not words[word]:
            del words[word]
        if not rules:
            del self._rules[clause], self._words[clause]

    def _contrary(self, clause: _Clause) -> bool:
        said: dict[Direction, set[tuple[Action, bool, bool]]] = {"in": set(), "out": set()}
        for word in self._words.get(clause, ()):
            said[word.direction].add((word.action, word.log, word.audit))
        return bool(said["in"] and said["out"]) and len(said["in"] | said["out"]) > 1


def _key(rule: PolicyRule) -> RuleKey:
    return rule.tenant, rule.policy, rule.rule_id


def _word(rule: PolicyRule) -> _Word:
    return _Word(rule.direction, rule.action, rule.log, rule.audit)


def _clause(rule: PolicyRule) -> _Clause:
    protocol = _ICMP if rule.protocol == _ICMP6 else rule.protocol
    port = rule.port if protocol in {TCP, UDP} else 0
    return _Clause(rule.tenant, rule.priority, protocol, port)
