"""The policies of the cluster as rules for this host's switches. Pure: no I/O, no clock.

`netplugin.world.graph` feeds it groups, networks, and the policies that `state.intents` decodes.
`state.policy_rules` expands a rule of a policy for each group that has the policy, or once for all
groups that share their policies (`netplugin.world.contiv_policies.policy_classes`); the results are
`rules`. Each change returns the ids of the rules it added, altered or removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import ip_network
from typing import Final

from core.collections.multimap import discard
from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName, group_key, network_id
from netplugin.world.contiv_policies.conflicting_rules import ConflictingRules
from netplugin.world.contiv_policies.policy_classes import PolicyClasses
from ofnet.openflow.fields import Flags
from ofnet.world import PolicyClass, Rule
from state.intents import Attachment
from state.policy_rules import NEW_CONNECTION, OfnetRule, PolicyRule, RuleScope, expand
from state.records import GroupRecord, NetworkRecord

PolicyKey = tuple[TenantName, str]
_FLAGS: Mapping[str, Flags | None] = {"": None, NEW_CONNECTION: Flags(value=0x02, mask=0x12)}
_OWN: Final = -1
"""Stands for the group that has the policy where a rule is expanded for a class; no group's id."""


class Policies:
    """Groups with their policies, and the rules derived from them.

    Each change returns the ids of the rules it altered.
    """

    # A rule means something only together with the group that has the policy, and with the groups
    # and networks that it names. Each may arrive before or after the others. So every change
    # derives anew all that depends on it, from indexes in both directions, and `_derived` remembers
    # what came of each (group, policy, rule): the outcome is the same in any order, and equal to
    # deriving everything from scratch (tests/property/netplugin/test_policies.py).
    #
    # What is shared is derived for the representative of a class, under the ids its rules have
    # anyway, and nothing for the others. So ids say the same with classes as without.

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._copy: Mapping[str, Rule] | None = None
        self._groups: dict[GroupKey, GroupRecord] = {}
        self._networks: dict[NetworkId, NetworkRecord] = {}
        self._attachments: dict[GroupKey, Attachment] = {}
        self._elsewhere: dict[GroupKey, Attachment] = {}
        """Of tenants that no pod of this host may meet."""
        self._tenants: frozenset[TenantName] | None = None
        self._members: dict[PolicyKey, set[GroupKey]] = {}
        self._policies: dict[PolicyKey, dict[str, PolicyRule]] = {}
        self._referring: dict[GroupKey | NetworkId, dict[tuple[PolicyKey, str], None]] = {}
        self._derived: dict[tuple[GroupKey, PolicyKey, str], tuple[str, ...]] = {}
        self._classes = PolicyClasses()
        self._classed: set[GroupKey] = set()
        self._contrary = ConflictingRules()

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules for the switches, by their ids; what is returned stays as it is."""
        # Most changes of a World alter no rule, and there may be a hundred thousand.
        if self._copy is None:
            self._copy = dict(self._rules)
        return self._copy

    @property
    def classes(self) -> Mapping[GroupKey, PolicyClass]:
        """The groups that share the flows of their rules; what is returned stays as it is."""
        return self._classes.classes

    def take_classed(self) -> frozenset[GroupKey]:
        """Return the groups that changed their class since the last call."""
        classed, self._classed = frozenset(self._classed), set()
        return classed

    def put_group(self, record: GroupRecord) -> set[str]:
        """Add or replace a group."""
        # Rules use nothing of a group but its id; other changes (DSCP, bandwidth) alter none.
        before = self._groups.get(record.key)
        self._groups[record.key] = record
        if before is not None and before.group_id == record.group_id:
            return set()
        return self._derive_group(record.key)

    def remove_group(self, key: GroupKey) -> set[str]:
        """Remove a group; rules that name it have no effect until it is added again."""
        self._groups.pop(key, None)
        return self._derive_group(key)

    def put_network(self, record: NetworkRecord) -> set[str]:
        """Add or replace a network."""
        self._networks[record.id] = record
        return self._derive_referring(record.id)

    def remove_network(self, nid: NetworkId) -> set[str]:
        """Remove a network."""
        self._networks.pop(nid, None)
        return self._derive_referring(nid)

    def put_attachment(self, attachment: Attachment) -> set[str]:
        """Set the policies of a group."""
        if self._tenants is not None and attachment.tenant not in self._tenants:
            altered = self.remove_attachment(attachment.key)
            self._elsewhere[attachment.key] = attachment
            return altered
        self._elsewhere.pop(attachment.key, None)
        before = self._attachments.get(attachment.key)
        self._attachments[attachment.key] = attachment
        return self._attach(attachment.key, before, attachment)

    def remove_attachment(self, key: GroupKey) -> set[str]:
        """Remove the policies of a group."""
        self._elsewhere.pop(key, None)
        return self._attach(key, self._attachments.pop(key, None), None)

    def hold(self, tenants: frozenset[TenantName] | None) -> set[str]:
        """Set the tenants whose groups' policies are derived (ADR 27); those of all until then."""
        if tenants is None or tenants == self._tenants:
            return set()
        self._tenants = tenants
        here, elsewhere = self._attachments.values(), self._elsewhere.values()
        moving = [one for one in here if one.tenant not in tenants]
        moving += [one for one in elsewhere if one.tenant in tenants]
        altered: set[str] = set()
        for attachment in moving:
            altered |= self.put_attachment(attachment)
        return altered

    def put_rule(self, rule: PolicyRule) -> set[str]:
        """Add or replace a rule of a policy."""
        known = self._forget(rule)
        policy = _policy_of(rule)
        self._policies.setdefault(policy, {})[rule.rule_id] = rule
        for name in _names(rule):
            self._referring.setdefault(name, {})[policy, rule.rule_id] = None
        return self._derive_rule(known, rule)

    def remove_rule(self, rule: PolicyRule) -> set[str]:
        """Remove a rule of a policy."""
        known = self._forget(rule)
        return self._derive_rule(known, None) if known is not None else set()

    def _forget(self, rule: PolicyRule) -> PolicyRule | None:
        """Take a rule out of the indexes; return it as it was, None if it was not known."""
        policy = _policy_of(rule)
        known = self._policies.get(policy, {}).pop(rule.rule_id, None)
        if known is None:
            return None
        if not self._policies[policy]:
            del self._policies[policy]
        for name in _names(known):
            referring = self._referring[name]
            del referring[policy, rule.rule_id]
            if not referring:
                del self._referring[name]
        return known

    def _attach(
        self, key: GroupKey, before: Attachment | None, after: Attachment | None
    ) -> set[str]:
        """Derive what follows from other policies of a group."""
        had, has = frozenset(_policies(before)), frozenset(_policies(after))
        for policy in had - has:
            discard(self._members, policy, key)
        for policy in has - had:
            self._members.setdefault(policy, set()).add(key)
        altered = self._derive_classed(self._classes.put_policies(key, has))
        for policy in had ^ has:
            altered |= self._derive(key, policy)
        return altered

    def _derive_rule(self, known: PolicyRule | None, rule: PolicyRule | None) -> set[str]:
        """Derive what follows from a rule in the place of another."""
        altered: set[str] = set()
        contrary = self._contrary.replace(known, rule)
        own = {(*_policy_of(one), one.rule_id) for one in (known, rule) if one is not None}
        for tenant, policy, rule_id in contrary | own:
            altered |= self._derive_for_members((tenant, policy), rule_id)
        return altered

    def _derive_group(self, key: GroupKey) -> set[str]:
        group = self._groups.get(key)
        moved = self._classes.put_group(key, None if group is None else group.group_id)
        altered = self._derive_classed(moved) | self._derive_referring(key)
        for policy in _policies(self._attachments.get(key)):
            altered |= self._derive(key, policy)
        return altered

    def _derive_classed(self, keys: Iterable[GroupKey]) -> set[str]:
        """Derive the rules of groups that changed their class."""
        altered: set[str] = set()
        for key in keys:
            self._classed.add(key)
            for policy in _policies(self._attachments.get(key)):
                altered |= self._derive(key, policy)
        return altered

    def _derive_referring(self, name: GroupKey | NetworkId) -> set[str]:
        altered: set[str] = set()
        for policy, rule_id in tuple(self._referring.get(name, ())):
            altered |= self._derive_for_members(policy, rule_id)
        return altered

    def _derive_for_members(self, policy: PolicyKey, rule_id: str) -> set[str]:
        altered: set[str] = set()
        for key in self._members.get(policy, ()):
            altered |= self._derive_one(key, policy, rule_id)
        return altered

    def _derive(self, key: GroupKey, policy: PolicyKey) -> set[str]:
        altered: set[str] = set()
        for rule_id in self._policies.get(policy, ()):
            altered |= self._derive_one(key, policy, rule_id)
        return altered

    def _derive_one(self, key: GroupKey, policy: PolicyKey, rule_id: str) -> set[str]:
        """Derive the switch rules of a rule for a group, if the group still has the policy."""
        group = self._groups.get(key)
        rule = self._policies.get(policy, {}).get(rule_id)
        wanted: dict[str, Rule] = {}
        if group is not None and rule is not None and key in self._members.get(policy, ()):
            wanted = self._expanded(group, rule)
        source = (key, policy, rule_id)
        before = self._derived.pop(source, ())
        if wanted:
            self._derived[source] = tuple(wanted)
        altered = {name for name in before if name not in wanted}
        altered |= {name for name, derived in wanted.items() if self._rules.get(name) != derived}
        for name in before:
            del self._rules[name]
        self._rules.update(wanted)
        if altered:
            self._copy = None
        return altered

    def _expanded(self, group: GroupRecord, rule: PolicyRule) -> dict[str, Rule]:
        """Return what a rule is for a group, or for its class if the group represents one."""
        known = RuleScope(groups=self._groups, networks=self._networks)
        number = 0
        shared = self._classes.of(group.key)
        if shared is not None and not self._contrary.has(rule):
            if shared.number != shared.group_id:
                return {}
            number, group = shared.number, replace(group, group_id=_OWN)
        expanded = expand(group, rule, known)
        return {derived.rule_id: _for_switch(derived, number) for derived in expanded}


def _for_switch(rule: OfnetRule, number: int) -> Rule:
    """Return a rule for switches; an end that is `_OWN` is the class of this number."""
    return Rule(
        id=rule.rule_id,
        priority=rule.priority,
        allow=rule.action == "allow",
        src_group=0 if rule.src_group == _OWN else rule.src_group,
        dst_group=0 if rule.dst_group == _OWN else rule.dst_group,
        src_class=number if rule.src_group == _OWN else 0,
        dst_class=number if rule.dst_group == _OWN else 0,
        source=ip_network(rule.src_address) if rule.src_address else None,
        destination=ip_network(rule.dst_address) if rule.dst_address else None,
        protocol=rule.protocol,
        src_port=rule.src_port,
        dst_port=rule.dst_port,
        tcp_flags=_FLAGS[rule.tcp_flags],
        log=rule.log,
        audit=rule.audit,
    )


def _policy_of(rule: PolicyRule) -> PolicyKey:
    return rule.tenant, rule.policy


def _policies(attachment: Attachment | None) -> list[PolicyKey]:
    """Return the policies of a group; None has none."""
    if attachment is None:
        return []
    # the original lets a group name a policy twice
    return [(attachment.tenant, policy) for policy in dict.fromkeys(attachment.policies)]


def _names(rule: PolicyRule) -> Iterable[GroupKey | NetworkId]:
    """Yield the keys of the group and the network a rule names."""
    if rule.group:
        yield group_key(GroupName(rule.group), rule.tenant)
    if rule.network:
        yield network_id(NetworkName(rule.network), rule.tenant)
