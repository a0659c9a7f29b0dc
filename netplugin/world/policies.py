"""The policies of the cluster as rules for this host's switches. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it groups, networks, and what `state.intents` reads of policies; it
keeps `rules`, what `state.policy_rules` makes of all that, and says after each change which of them
are new, different or gone. Only what a change concerns is derived anew: a rule, or a group's rules,
or those that name a group or a network.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_network

from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName, group_key, network_id
from core.multimap import discard
from ofnet.openflow.fields import Flags
from ofnet.world import Rule
from state.intents import Attachment
from state.policy_rules import NEW_CONNECTION, OfnetRule, PolicyRule, RuleScope, expand
from state.records import GroupRecord, NetworkRecord

PolicyKey = tuple[TenantName, str]
_FLAGS: Mapping[str, Flags | None] = {"": None, NEW_CONNECTION: Flags(value=0x02, mask=0x12)}


class Policies:
    """Who has which policies, and the rules that follow; each change returns the ids it altered."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}
        """The rules for the switches, by their ids."""
        self._groups: dict[GroupKey, GroupRecord] = {}
        self._networks: dict[NetworkId, NetworkRecord] = {}
        self._attachments: dict[GroupKey, Attachment] = {}
        self._members: dict[PolicyKey, set[GroupKey]] = {}
        self._policies: dict[PolicyKey, dict[str, PolicyRule]] = {}
        self._naming: dict[GroupKey | NetworkId, dict[tuple[PolicyKey, str], None]] = {}
        self._derived: dict[tuple[GroupKey, PolicyKey, str], tuple[str, ...]] = {}

    def put_group(self, record: GroupRecord) -> set[str]:
        """Learn or replace a group."""
        before = self._groups.get(record.key)
        self._groups[record.key] = record
        if before is not None and before.group_id == record.group_id:
            return set()
        return self._derive_group(record.key)

    def remove_group(self, key: GroupKey) -> set[str]:
        """Forget a group: rules that name it mean nothing until there is one of that name."""
        self._groups.pop(key, None)
        return self._derive_group(key)

    def put_network(self, record: NetworkRecord) -> set[str]:
        """Learn or replace a network."""
        self._networks[record.id] = record
        return self._derive_naming(record.id)

    def remove_network(self, nid: NetworkId) -> set[str]:
        """Forget a network."""
        self._networks.pop(nid, None)
        return self._derive_naming(nid)

    def put_attachment(self, attachment: Attachment) -> set[str]:
        """Learn which policies hold for a group."""
        altered = self.remove_attachment(attachment.key)
        self._attachments[attachment.key] = attachment
        for policy in _policies(attachment):
            self._members.setdefault(policy, set()).add(attachment.key)
            altered |= self._derive(attachment.key, policy)
        return altered

    def remove_attachment(self, key: GroupKey) -> set[str]:
        """Forget a group's policies."""
        gone = self._attachments.pop(key, None)
        altered: set[str] = set()
        for policy in _policies(gone) if gone is not None else ():
            discard(self._members, policy, key)
            altered |= self._derive(key, policy)
        return altered

    def put_rule(self, rule: PolicyRule) -> set[str]:
        """Learn or replace a rule of a policy."""
        altered = self.remove_rule(rule)
        policy = _policy_of(rule)
        self._policies.setdefault(policy, {})[rule.rule_id] = rule
        for name in _names(rule):
            self._naming.setdefault(name, {})[policy, rule.rule_id] = None
        return altered | self._derive_everywhere(policy, rule.rule_id)

    def remove_rule(self, rule: PolicyRule) -> set[str]:
        """Forget a rule of a policy."""
        policy = _policy_of(rule)
        known = self._policies.get(policy, {}).pop(rule.rule_id, None)
        if known is None:
            return set()
        if not self._policies[policy]:
            del self._policies[policy]
        for name in _names(known):
            naming = self._naming[name]
            del naming[policy, rule.rule_id]
            if not naming:
                del self._naming[name]
        return self._derive_everywhere(policy, rule.rule_id)

    def _derive_group(self, key: GroupKey) -> set[str]:
        altered = self._derive_naming(key)
        attachment = self._attachments.get(key)
        for policy in _policies(attachment) if attachment is not None else ():
            altered |= self._derive(key, policy)
        return altered

    def _derive_naming(self, name: GroupKey | NetworkId) -> set[str]:
        altered: set[str] = set()
        for policy, rule_id in tuple(self._naming.get(name, ())):
            altered |= self._derive_everywhere(policy, rule_id)
        return altered

    def _derive_everywhere(self, policy: PolicyKey, rule_id: str) -> set[str]:
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
        """Derive what a rule means for a group, if the policy still holds for it."""
        group = self._groups.get(key)
        rule = self._policies.get(policy, {}).get(rule_id)
        wanted: dict[str, Rule] = {}
        if group is not None and rule is not None and key in self._members.get(policy, ()):
            known = RuleScope(groups=self._groups, networks=self._networks)
            wanted = {
                derived.rule_id: _for_switch(derived) for derived in expand(group, rule, known)
            }
        place = (key, policy, rule_id)
        before = self._derived.pop(place, ())
        if wanted:
            self._derived[place] = tuple(wanted)
        altered = {name for name in before if name not in wanted}
        altered |= {name for name, derived in wanted.items() if self.rules.get(name) != derived}
        for name in before:
            del self.rules[name]
        self.rules.update(wanted)
        return altered


def _for_switch(rule: OfnetRule) -> Rule:
    return Rule(
        id=rule.rule_id,
        priority=rule.priority,
        allow=rule.action == "allow",
        src_group=rule.src_group,
        dst_group=rule.dst_group,
        source=ip_network(rule.src_address) if rule.src_address else None,
        destination=ip_network(rule.dst_address) if rule.dst_address else None,
        protocol=rule.protocol,
        src_port=rule.src_port,
        dst_port=rule.dst_port,
        tcp_flags=_FLAGS[rule.tcp_flags],
    )


def _policy_of(rule: PolicyRule) -> PolicyKey:
    return rule.tenant, rule.policy


def _policies(attachment: Attachment) -> Iterable[PolicyKey]:
    # the original lets a group name a policy twice
    return ((attachment.tenant, policy) for policy in dict.fromkeys(attachment.policies))


def _names(rule: PolicyRule) -> Iterable[GroupKey | NetworkId]:
    """Yield the keys of the group and the network a rule names."""
    if rule.group:
        yield group_key(GroupName(rule.group), rule.tenant)
    if rule.network:
        yield network_id(NetworkName(rule.network), rule.tenant)
