"""Which networks a tenant's operator may create. Pure.

An administrator gives a tenant prefixes, and with them the right to create networks, within a quota
of addresses if there is one (`networkPrefixes` and `addressQuota` of the tenant). Without prefixes
only administrators create networks there. In comes the decision of an operator's change; out comes
one that refuses what goes beyond.
"""

from collections.abc import Callable
from typing import Final

from contivmodel.objects import Tenant
from core.addresses import Subnet, ipv4, parse_subnet6, split_length, subnet4
from core.errors import Invalid
from netmaster.auth.roles import AccessDenied
from netmaster.plan.model import Plan
from netmaster.view import View
from state.records import NetworkRecord

MOST_PREFIXES: Final = 64


def limited(decide: Callable[[View], Plan]) -> Callable[[View], Plan]:
    """Return the decision of a client that creates networks only where its tenant may have some."""

    def decide_within(view: View) -> Plan:
        plan = decide(view)
        for write in plan.writes:
            if isinstance(write.record, NetworkRecord) and write.new:
                _check(view, write.record)
        return plan

    return decide_within


def check_limits(tenant: Tenant) -> None:
    """Refuse prefixes that are none. Raises Invalid."""
    if len(tenant.network_prefixes) > MOST_PREFIXES:
        raise Invalid(f"tenant {tenant.tenant_name}: at most {MOST_PREFIXES} networkPrefixes")
    for text in tenant.network_prefixes:
        _prefix(text)
    if tenant.address_quota and not tenant.network_prefixes:
        raise Invalid(f"tenant {tenant.tenant_name}: addressQuota needs networkPrefixes")


def _check(view: View, network: NetworkRecord) -> None:
    """Refuse a network that an operator may not create. Raises AccessDenied."""
    tenant = view.objects[Tenant.kind].get(network.tenant)
    if not isinstance(tenant, Tenant) or not tenant.network_prefixes:
        raise AccessDenied(
            f"only administrators create networks in tenant {network.tenant}: it has no "
            "networkPrefixes"
        )
    prefixes = list(map(_prefix, tenant.network_prefixes))
    for subnet in network.subnets:
        if not any(_within(subnet, one) for one in prefixes):
            allowed = ", ".join(tenant.network_prefixes)
            raise AccessDenied(
                f"subnet {subnet} is not within the networkPrefixes of tenant {network.tenant}: "
                f"{allowed}"
            )
    own = [one for one in view.networks.values() if one.tenant == network.tenant]
    used = sum(map(_size, own))
    quota, wanted = tenant.address_quota, _size(network)
    if quota and used + wanted > quota:
        raise AccessDenied(
            f"tenant {network.tenant} may have {quota} addresses (addressQuota): its networks have "
            f"{used}, and this one would have {wanted}"
        )


def _size(network: NetworkRecord) -> int:
    """Return how many IPv4 addresses a network has: those of its range, if it has one."""
    if network.bounded:
        return ipv4(network.last) - ipv4(network.first) + 1
    return network.v4.size if network.v4 else 0


def _within(subnet: Subnet, prefix: Subnet) -> bool:
    return subnet.bits == prefix.bits and subnet.base in prefix and subnet.last in prefix


def _prefix(text: str) -> Subnet:
    try:
        if ":" in text:
            return parse_subnet6(text)[0]
        address, length = split_length(text)
        return subnet4(ipv4(address), length)
    except ValueError as exc:
        raise Invalid(f"networkPrefixes: {text!r} is no prefix, as 10.20.0.0/16 is one") from exc
