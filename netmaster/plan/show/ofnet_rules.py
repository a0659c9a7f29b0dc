"""`PolicyDb` of `/debug/ofnet`: every ofnet rule, as `state.policy_rules` derives them.

Plain data under the original's field names; everything comes from the view.
"""

from collections.abc import Iterator

from contivmodel.objects import EndpointGroup, Policy, Rule
from core import ids
from core.ids import GroupName, TenantName
from netmaster.plan.objects.rule import policy_rule
from netmaster.view import View
from state.policy_rules import OfnetRule, PolicyRule, RuleScope, expand, expand_all
from state.records import GroupRecord


def policy_db(view: View) -> dict[str, dict[str, object]]:
    """Return all ofnet rules by their ids; none on an ACI fabric, which enforces policies."""
    return {name: _shown(rule) for name, rule in ofnet_rules(view).items()}


def ofnet_rules(view: View) -> dict[str, OfnetRule]:
    """Return all ofnet rules by their ids, as `policy_db`."""
    if view.is_aci:
        return {}
    known = RuleScope(groups=view.groups, networks=view.networks)
    return expand_all(_holding(view), known)


def origins(view: View) -> dict[str, str]:
    """Return the keys of the users' rules by the ids of the ofnet rules derived from them."""
    if view.is_aci:
        return {}
    known = RuleScope(groups=view.groups, networks=view.networks)
    return {
        derived.rule_id: f"{rule.tenant}:{rule.policy}:{rule.rule_id}"
        for group, rules in _holding(view)
        for rule in rules
        for derived in expand(group, rule, known)
    }


def _holding(view: View) -> Iterator[tuple[GroupRecord, list[PolicyRule]]]:
    """Yield every group with the rules that hold for it, policy by policy."""
    for policy in view.objects[Policy.kind]:
        groups = view.members(EndpointGroup.kind, Policy.kind, policy)
        if not groups:
            continue
        rules = [
            policy_rule(rule)
            for key in view.members(Rule.kind, Policy.kind, policy)
            if isinstance(rule := view.objects[Rule.kind][key], Rule)
        ]
        for key in groups:
            tenant, _, name = key.partition(":")
            group = view.groups.get(ids.group_key(GroupName(name), TenantName(tenant)))
            if group is not None:
                yield group, rules


def _shown(rule: OfnetRule) -> dict[str, object]:
    return {
        "RuleId": rule.rule_id,
        "Priority": rule.priority,
        "SrcEndpointGroup": rule.src_group,
        "DstEndpointGroup": rule.dst_group,
        "SrcIpAddr": rule.src_address,
        "DstIpAddr": rule.dst_address,
        "IpProtocol": rule.protocol,
        "SrcPort": rule.src_port,
        "DstPort": rule.dst_port,
        "TcpFlags": rule.tcp_flags,
        "Action": rule.action,
    }
