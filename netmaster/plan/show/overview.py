"""What there is and what wants a look, for `GET /api/v2/overview`. Pure.

In come the view and the tenants that the client may see; out come numbers of objects and endpoints,
the networks that are nearly full, and the services that nobody serves. Hosts are not told here:
who may see them asks `/api/v2/hosts`.
"""

from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from contivmodel.answers import Count
from contivmodel.objects import EndpointGroup, Network, Policy, RestObject, Rule, Tenant
from contivmodel.service_objects import Bgp, ServiceLB
from core import ids
from netmaster.plan.show import address_use
from netmaster.plan.show.address_use import AddressUse
from netmaster.view import View

FULL: Final = 0.8
"""The share of a network's IPv4 addresses from which on it is nearly full."""
MOST: Final = 100
"""Networks and services that are named."""


class OverviewTotals(TypedDict):
    """How many objects and endpoints there are."""

    endpoints: Count
    tenants: Count
    networks: Count
    endpointGroups: Count
    policys: Count
    rules: Count
    serviceLBs: Count
    Bgps: Count


class UnservedService(TypedDict):
    """A service without a provider."""

    key: str
    tenantName: str
    serviceName: str


class Overview(TypedDict):
    """What there is, and what wants a look."""

    totals: OverviewTotals
    full: Annotated[
        list[AddressUse],
        Field(
            description=f"networks with {FULL:.0%} of their IPv4 addresses used, the fullest first"
        ),
    ]
    unserved: Annotated[list[UnservedService], Field(description="services without a provider")]
    complete: Annotated[
        bool, Field(description=f"false where there are more than {MOST} of either")
    ]


def overview(view: View, tenants: frozenset[str] | None) -> Overview:
    """Return the overview of these tenants, None for everything."""
    networks = [
        nid for nid, one in view.networks.items() if tenants is None or one.tenant in tenants
    ]
    use = [address_use.shown(view, nid) for nid in networks]
    full = sorted(
        (one for one in use if _used(one) >= FULL), key=lambda one: (-_used(one), one["key"])
    )
    unserved: list[UnservedService] = [
        {
            "key": ids.object_key(one.tenant, one.name),
            "tenantName": one.tenant,
            "serviceName": one.name,
        }
        for one in sorted(view.services.values(), key=lambda one: (one.tenant, one.name))
        if (tenants is None or one.tenant in tenants) and not view.providers(one)
    ]
    totals: OverviewTotals = {
        "endpoints": sum(len(view.network_endpoints.get(nid, ())) for nid in networks),
        "tenants": _count(view, Tenant, tenants),
        "networks": _count(view, Network, tenants),
        "endpointGroups": _count(view, EndpointGroup, tenants),
        "policys": _count(view, Policy, tenants),
        "rules": _count(view, Rule, tenants),
        "serviceLBs": _count(view, ServiceLB, tenants),
        "Bgps": _count(view, Bgp, tenants),
    }
    return {
        "totals": totals,
        "full": full[:MOST],
        "unserved": unserved[:MOST],
        "complete": max(len(full), len(unserved)) <= MOST,
    }


def _used(network: AddressUse) -> float:
    size = network["size"]
    return (size - network["free"]) / size if size else 0.0


def _count(view: View, model: type[RestObject], tenants: frozenset[str] | None) -> int:
    objects = view.objects[model.kind]
    if tenants is None:
        return len(objects)
    return sum(getattr(one, "tenant_name", None) in tenants for one in objects.values())
