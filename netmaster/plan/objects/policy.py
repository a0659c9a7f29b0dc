"""Decisions about policies (docs/original/netmaster-rest.md §2).

A policy is only its REST object. Its rules are objects of their own
(`netmaster.plan.objects.rule`), and groups name the policies that hold for them
(`netmaster.plan.objects.group`).

A policy may have any number of rules. Its deletion removes its object and the first of its rules in
one transaction; the view then shows none of its rules. `sweep` deletes the orphaned rules from the
store in parts, called by the deletion itself and periodically by every leader.

A policy under audit has only rules under audit. `set_audited` brings its rules to what the policy
says, in parts that are committed one after the other, called in the same way.
"""

# Each part of it must be safe where it is the last one for a while: packets that neither the old
# nor the new state denies always pass. So rules that deny go under audit before rules that allow,
# and come back after them.

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from contivmodel.objects import EndpointGroup, Link, Policy, PolicyLinks, Rule, Tenant
from contivmodel.wire import blank
from core import keys
from core.errors import Conflict, Invalid, NotFound
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View

CHUNK: Final = 24
"""Rules deleted or changed by one transaction; every store accepts that many."""

AUDIT: Final = "audit"
ENFORCING: Final = "enforcing"
"""What `Policy.enforcement` may be beside ""."""


def create(view: View, posted: Policy) -> Plan:
    """Create a policy without rules."""
    key = posted.object_key()
    if key in view.objects[Policy.kind]:
        return update(view, posted)
    if not posted.tenant_name:
        raise Invalid("Invalid tenant name")
    if posted.tenant_name not in view.objects[Tenant.kind]:
        raise NotFound("Tenant not found")
    # A view that is loaded later would take the orphaned rules for those of the new policy.
    if key in view.orphaned_rules:
        raise Conflict(f"policy {key} is still being deleted, try again")
    policy = posted.model_copy(
        update={
            "key": key,
            "link_sets": blank(Policy).link_sets,
            "links": PolicyLinks(tenant=Link(type=Tenant.kind, key=posted.tenant_name)),
        }
    )
    write = Write(keys.obj(Policy.kind, key), policy, new=True)
    return Plan((write,), reply=view.linked(policy))


def update(view: View, posted: Policy) -> Plan:
    """Put all rules of a policy under audit, or none; "" changes nothing, as in the original."""
    stored = view.read(Policy.kind, posted.object_key())
    if stored is None:
        raise NotFound("policy not found")
    return replace(view, posted) if posted.enforcement else Plan((), reply=stored)


def replace(view: View, posted: Policy) -> Plan:
    """Put all rules of a policy under audit, or none."""
    policy = view.objects[Policy.kind].get(posted.object_key())
    if not isinstance(policy, Policy):
        raise NotFound("policy not found")
    plan = _part(view, policy, posted.enforcement)
    shown = policy.model_copy(update={"enforcement": posted.enforcement})
    return Plan(plan.writes, reply=view.linked(shown), then=plan.then)


def set_audited(view: View) -> Plan:
    """Bring some rules to what their policy says; the reply is how many were not."""
    for policy in view.objects[Policy.kind].values():
        if isinstance(policy, Policy) and policy.enforcement:
            plan = _part(view, policy, policy.enforcement)
            if plan.writes:
                return Plan(plan.writes, reply=len(plan.writes), then=set_audited)
    return Plan((), reply=0)


def _part(view: View, policy: Policy, wanted: str) -> Plan:
    """Return what brings some rules of a policy to what is wanted of it, and the policy."""
    audit = wanted == AUDIT
    waiting = sorted(_differing(view, policy.key, audit=audit), key=_denies, reverse=audit)
    changed = [rule.model_copy(update={"audit": audit}) for rule in waiting[:CHUNK]]
    more = len(waiting) > CHUNK
    becomes = AUDIT if audit else ENFORCING if more else ""
    writes = [Write(keys.obj(Rule.kind, one.key), one, new=False) for one in changed]
    if policy.enforcement != becomes:
        after = policy.model_copy(update={"enforcement": becomes})
        writes.append(Write(keys.obj(Policy.kind, policy.key), after, new=False))
    return Plan(tuple(writes), reply=None, then=set_audited if more else None)


def _differing(view: View, key: str, *, audit: bool) -> Iterator[Rule]:
    for name in view.members(Rule.kind, Policy.kind, key):
        rule = view.objects[Rule.kind][name]
        if isinstance(rule, Rule) and rule.audit is not audit:
            yield rule


def _denies(rule: Rule) -> bool:
    return rule.action == "deny"


def delete(view: View, key: str) -> Plan:
    """Delete a policy that no group names, with its rules."""
    policy = view.objects[Policy.kind].get(key)
    if not isinstance(policy, Policy):
        raise NotFound("policy not found")
    if policy.tenant_name not in view.objects[Tenant.kind]:
        raise NotFound(f"Tenant {policy.tenant_name} not found")
    if view.members(EndpointGroup.kind, Policy.kind, key):
        raise Conflict("Policy is being used")
    rules = view.members(Rule.kind, Policy.kind, key)
    writes = (
        *(Write(keys.obj(Rule.kind, rule), None, new=False) for rule in islice(rules, CHUNK)),
        Write(keys.obj(Policy.kind, key), None, new=False),
    )
    return Plan(writes, reply=key, then=sweep if len(rules) > CHUNK else None)


def sweep(view: View) -> Plan:
    """Delete some orphaned rules of deleted policies; the reply is how many."""
    left = islice(chain.from_iterable(view.orphaned_rules.values()), CHUNK)
    writes = tuple(Write(key, None, new=False) for key in left)
    return Plan(writes, reply=len(writes), then=sweep if writes else None)
