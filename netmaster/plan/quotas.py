"""How much a tenant may have: networks, groups, policies, rules, endpoints, addresses. Pure.

In comes a decision; out comes one that refuses what goes beyond a quota of the tenant. The leader
decides each change against a view that has all changes before it, those too that are not committed
yet (ADR 9). So the check and the creation are one, however many clients there are. What there is
already stays when a quota is lowered.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from contivmodel.objects import EndpointGroup, Network, Policy, Rule, Tenant
from core import ids, keys
from core.errors import QuotaExceeded
from core.ids import NetworkId, NetworkName, TenantName
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from state.records import EndpointRecord, GrantOwner, GrantRecord, NetworkType

QUOTAS: Final = {
    "networks": "network_quota",
    "groups": "group_quota",
    "policies": "policy_quota",
    "rules": "rule_quota",
    "endpoints": "endpoint_quota",
    "addresses in use": "used_address_quota",
}
"""What is counted -> the attribute of a tenant that limits it, 0 for no limit."""
ATTRIBUTES: Final = tuple(QUOTAS.values())

_OBJECTS: Final = {
    Network: "networks",
    EndpointGroup: "groups",
    Policy: "policies",
    Rule: "rules",
}
_Wanted = tuple[TenantName, str]


def limited(decide: Callable[[View], Plan]) -> Callable[[View], Plan]:
    """Return the decision that creates nothing beyond a tenant's quotas."""

    def decide_within(view: View) -> Plan:
        plan = decide(view)
        check(view, plan)
        return plan

    return decide_within


def check(view: View, plan: Plan) -> None:
    """Raise QuotaExceeded for a plan after which a tenant would have more than it may."""
    if not view.limited_tenants:
        return
    more: Counter[_Wanted] = Counter()
    for write in plan.writes:
        for wanted, number in _created(view, write):
            more[wanted] += number
    for (tenant, what), number in more.items():
        allowed = _allowed(view, tenant, what) if number > 0 else 0
        if not allowed:
            continue
        used = _COUNTS[what](view, tenant)
        if used + number > allowed:
            raise QuotaExceeded(
                f"tenant {tenant} may have {allowed} {what} by its quota: it has {used}, and this "
                f"would make {used + number}"
            )


def limits_endpoints(view: View, tenant: TenantName) -> bool:
    """Return whether a tenant has a quota of endpoints, or of what they use."""
    return any(_allowed(view, tenant, what) for what in ("endpoints", "addresses in use"))


def used(view: View, tenant: TenantName) -> dict[str, tuple[int, int]]:
    """Return how many a tenant has and may have, of what it has a quota of."""
    return {
        what: (count(view, tenant), allowed)
        for what, count in _COUNTS.items()
        if (allowed := _allowed(view, tenant, what))
    }


def _created(view: View, write: Write) -> Iterator[tuple[_Wanted, int]]:
    """Yield what a write adds to whom, and addresses that it releases as less than none."""
    record = write.record
    match record:
        case Network() | EndpointGroup() | Policy() | Rule() if write.new:
            yield (TenantName(record.tenant_name), _OBJECTS[type(record)]), 1
        case EndpointRecord() if write.new:
            if (tenant := _tenant(view, record.network)) is not None:
                yield (tenant, "endpoints"), 1
        case GrantRecord() | None if write.key.startswith(keys.GRANTS):
            gone = record is None
            if not (gone or write.new) or (record and record.owner is GrantOwner.GATEWAY):
                return
            if (tenant := _tenant(view, keys.parse_grant(write.key)[0])) is not None:
                yield (tenant, "addresses in use"), -1 if gone else 1
        case _:
            pass


def _tenant(view: View, nid: NetworkId) -> TenantName | None:
    """Return whose quota a network's endpoints count for; None for those of hosts themselves."""
    network = view.networks.get(nid)
    return None if network is None or network.type is NetworkType.INFRA else network.tenant


def _allowed(view: View, tenant: TenantName, what: str) -> int:
    stored = view.limited_tenants.get(tenant)
    return int(getattr(stored, QUOTAS[what])) if stored is not None else 0


def _networks(view: View, tenant: TenantName) -> Iterator[NetworkId]:
    """Yield the networks of a tenant, but those of hosts themselves."""
    for key in view.members(Network.kind, Tenant.kind, tenant):
        nid = ids.network_id(NetworkName(key.partition(":")[2]), tenant)
        if _tenant(view, nid) is not None:
            yield nid


def _rules(view: View, tenant: TenantName) -> int:
    policies = view.members(Policy.kind, Tenant.kind, tenant)
    return sum(len(view.members(Rule.kind, Policy.kind, policy)) for policy in policies)


def _endpoints(view: View, tenant: TenantName) -> int:
    return sum(len(view.network_endpoints.get(nid, ())) for nid in _networks(view, tenant))


def _addresses(view: View, tenant: TenantName) -> int:
    return sum(
        len(view.addresses[nid].grants)
        - sum(bool(one) for one in (view.networks[nid].gateway, view.networks[nid].ipv6_gateway))
        for nid in _networks(view, tenant)
    )


_COUNTS: Final[dict[str, Callable[[View, TenantName], int]]] = {
    "networks": lambda view, tenant: len(view.members(Network.kind, Tenant.kind, tenant)),
    "groups": lambda view, tenant: len(view.members(EndpointGroup.kind, Tenant.kind, tenant)),
    "policies": lambda view, tenant: len(view.members(Policy.kind, Tenant.kind, tenant)),
    "rules": _rules,
    "endpoints": _endpoints,
    "addresses in use": _addresses,
}
