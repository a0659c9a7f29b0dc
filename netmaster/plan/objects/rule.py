"""Decisions about the rules of policies (docs/original/netmaster-rest.md §2).

A rule is only its REST object, and immutable, but for `audit`, which its policy may change
(`netmaster.plan.objects.policy`); the rules of switches are derived from it
(`state.policy_rules`). Rules do not depend on each other, so they may share a commit.
"""

from contivmodel.objects import EndpointGroup, Link, Network, Policy, Rule, RuleLinks
from contivmodel.wire import blank
from core import ids, keys
from core.addresses import Subnet
from core.errors import Conflict, Invalid, NotFound
from core.ids import GroupName, TenantName
from netmaster.indexes.backlinks import policy_key
from netmaster.plan import older_readers
from netmaster.plan.model import Plan
from netmaster.plan.objects.policy import AUDIT
from netmaster.stored import Write
from netmaster.view import View
from state import policy_rules
from state.policy_rules import PolicyRule


def create(view: View, posted: Rule) -> Plan:
    """Add a rule to a policy."""
    key = posted.object_key()
    if key in view.objects[Rule.kind]:
        return update(view, posted)
    _check_peers(posted)
    group = _peer_group(view, posted)
    _check_network(view, posted, posted.from_network, "from Network not found")
    _check_network(view, posted, posted.to_network, "to Network not found")
    if policy_key(posted) not in view.objects[Policy.kind]:
        raise NotFound("Policy not found")
    _check_addresses(view, posted)
    if posted.direction == "in" and posted.to_ip_address:
        _check_member(view, posted)
    policy = view.objects[Policy.kind][policy_key(posted)]
    rule = posted.model_copy(
        update={
            "key": key,
            "audit": posted.audit or (isinstance(policy, Policy) and policy.enforcement == AUDIT),
            "link_sets": blank(Rule).link_sets,
            "links": RuleLinks(match_endpoint_group=group),
        }
    )
    return Plan((Write(keys.obj(Rule.kind, key), rule, new=True),), reply=view.linked(rule))


def update(view: View, posted: Rule) -> Plan:
    """Refuse: a rule is immutable, so even a repeated creation is refused."""
    if posted.object_key() not in view.objects[Rule.kind]:
        raise NotFound("rule not found")
    raise Conflict("can not update a rule after its created")


def delete(view: View, key: str) -> Plan:
    """Remove a rule from its policy."""
    if key not in view.objects[Rule.kind]:
        raise NotFound("rule not found")
    return Plan((Write(keys.obj(Rule.kind, key), None, new=False),), reply=key)


def _check_peers(rule: Rule) -> None:
    """Refuse peers that a rule of this direction cannot have, and a peer that is named twice."""
    if rule.direction == "in":
        if rule.to_network or rule.to_endpoint_group:
            raise Invalid("can not specify 'to' parameters in incoming rule")
        if rule.from_network and rule.from_ip_address:
            raise Invalid("can not specify both from network and from ip address")
        if rule.from_network and rule.from_endpoint_group:
            raise Invalid("can not specify both from network and from EndpointGroup")
    elif rule.direction == "out":
        if rule.from_network or rule.from_endpoint_group or rule.from_ip_address:
            raise Invalid("can not specify 'from' parameters in outgoing rule")
        if rule.to_network and rule.to_ip_address:
            raise Invalid("can not specify both to-network and to-ip address")
        if rule.to_network and rule.to_endpoint_group:
            raise Invalid("can not specify both to-network and to-EndpointGroup")
    else:
        raise Invalid("invalid direction for the rule")


def _peer_group(view: View, rule: Rule) -> Link:
    """Return a link to the peer group; an empty one if the rule names none."""
    name = rule.from_endpoint_group or rule.to_endpoint_group
    if not name:
        return Link()
    key = ids.object_key(TenantName(rule.tenant_name), name)
    if key not in view.objects[EndpointGroup.kind]:
        raise NotFound("endpoint group not found")
    return Link(type=EndpointGroup.kind, key=key)


def _check_network(view: View, rule: Rule, name: str, text: str) -> None:
    key = ids.object_key(TenantName(rule.tenant_name), name)
    if name and key not in view.objects[Network.kind]:
        raise NotFound(text)


def _check_addresses(view: View, rule: Rule) -> None:
    """Refuse a range without addresses, ends of two families, and what old agents cannot read."""
    families = set()
    for name, text in (
        ("fromIpAddress", rule.from_ip_address),
        ("toIpAddress", rule.to_ip_address),
    ):
        try:
            match policy_rules.addresses(text):
                case None:
                    continue
                case (first, last) if first > last:
                    raise Invalid(f"invalid address range {text}")
                case matched:
                    families.add(isinstance(matched, Subnet))
        except ValueError as exc:
            raise Invalid(f"{name} string invalid format") from exc
    if len(families) > 1:
        raise Invalid(
            f"no packet is from {rule.from_ip_address} to {rule.to_ip_address}: give both ends "
            "addresses of one family"
        )
    if True in families:
        older_readers.check_ipv6(view, "rules with addresses of IPv6")


def _check_member(view: View, rule: Rule) -> None:
    """Refuse an address that no endpoint of the policy's only group has."""
    address, wanted = rule.to_ip_address, policy_rules.addresses(rule.to_ip_address)
    groups = list(view.members(EndpointGroup.kind, Policy.kind, policy_key(rule)))
    if len(groups) != 1:
        raise Conflict(
            f"failed to configure {address}, {len(groups)} endpoint groups linked to policy "
            f"{rule.policy_name} "
        )
    tenant, _, name = groups[0].partition(":")
    group = ids.group_key(GroupName(name), TenantName(tenant))
    members = view.group_endpoints.get(group, {})
    held = (view.endpoints[member] for member in members)
    if not any(one.ip_address == address or _has(one.ipv6_address, wanted) for one in held):
        raise NotFound(f"failed to configure {address}, ip address is not in epg {group}")


def _has(address: str, wanted: policy_rules.Addresses | None) -> bool:
    """Return whether an endpoint's address of IPv6 is the one that a rule names."""
    return bool(address) and policy_rules.addresses(address) == wanted


def policy_rule(rule: Rule) -> PolicyRule:
    """Return the input of `state.policy_rules` for a rule."""
    return policy_rules.policy_rule(
        tenant=rule.tenant_name,
        policy=rule.policy_name,
        rule_id=rule.rule_id,
        direction=rule.direction,
        action=rule.action,
        priority=rule.priority,
        protocol=rule.protocol,
        port=rule.port,
        group=rule.from_endpoint_group or rule.to_endpoint_group,
        network=rule.from_network or rule.to_network,
        source=rule.from_ip_address,
        destination=rule.to_ip_address,
        log=rule.log,
        audit=rule.audit,
    )
