"""The REST objects of a view, with their backlinks, subnet claims and orphaned rules. Pure.

`netmaster.view` keeps one. Link-sets are derived (`netmaster.indexes.backlinks`), never stored.
"""

from collections.abc import Iterable

from contivmodel.objects import Network, Policy, RestObject, Rule, Tenant
from core import keys
from core.errors import Invalid
from netmaster.indexes.backlinks import Backlinks, policy_key
from netmaster.ipam.claims import SubnetClaims


class RestObjects:
    """All REST objects, by class and key.

    `limited_tenants` have a quota of what they use; creations of no other tenant are counted.

    `orphaned_rules` are rules whose policy is deleted and whose keys are still in the store: by
    the policy's key, then by their own store key.
    """

    # A policy may have more rules than one transaction can delete. Its deletion commits its object
    # and the first of its rules; the others are orphaned and deleted later, in parts. They are not
    # among `objects`: a client that deleted a policy must not see its rules, and a new policy of
    # that name must not get them.

    def __init__(self, kinds: Iterable[str]) -> None:
        self.objects: dict[str, dict[str, RestObject]] = {kind: {} for kind in kinds}
        self.backlinks = Backlinks()
        self.claims = SubnetClaims()
        self.limited_tenants: dict[str, Tenant] = {}
        self.orphaned_rules: dict[str, dict[str, Rule]] = {}

    def put(self, record: RestObject) -> None:
        """Add an object, or replace the one of its class and key."""
        objects = self.objects[record.kind]
        before = objects.get(record.key)
        if before is not None:
            self._unlink(before)
        objects[record.key] = record
        self.backlinks.add(record)
        if isinstance(record, Network):
            self.claims.add(record)
        elif isinstance(record, Tenant) and record.has_usage_quota:
            self.limited_tenants[record.key] = record

    def remove(self, key: str) -> None:
        """Remove the object or orphaned rule of a store key; Invalid if there is none.

        With a policy go its rules, which are orphaned then.
        """
        kind, object_key = keys.parse_obj(key)
        removed = self.objects[kind].pop(object_key, None)
        if removed is None:
            self._remove_orphan(key)
            return
        self._unlink(removed)
        if isinstance(removed, Policy):
            for rule in list(self.backlinks.members(Rule.kind, Policy.kind, removed.key)):
                self._orphan(rule)

    def orphan_rules(self) -> None:
        """Find the orphaned rules among objects that were read from a store."""
        rules, policies = self.objects[Rule.kind], self.objects[Policy.kind]
        for rule in list(rules.values()):
            if isinstance(rule, Rule) and policy_key(rule) not in policies:
                self._orphan(rule.key)

    def _unlink(self, removed: RestObject) -> None:
        self.backlinks.remove(removed)
        if isinstance(removed, Network):
            self.claims.remove(removed)
        elif isinstance(removed, Tenant):
            self.limited_tenants.pop(removed.key, None)

    def _orphan(self, key: str) -> None:
        rule = self.objects[Rule.kind].pop(key)
        self.backlinks.remove(rule)
        if isinstance(rule, Rule):
            store_key = keys.obj(Rule.kind, key)
            self.orphaned_rules.setdefault(policy_key(rule), {})[store_key] = rule

    def _remove_orphan(self, key: str) -> None:
        for policy, rules in self.orphaned_rules.items():
            if key in rules:
                del rules[key]
                if not rules:
                    del self.orphaned_rules[policy]
                return
        raise Invalid(f"key {key}: there is no such object")
