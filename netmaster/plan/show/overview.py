"""What there is and what wants a look, for `GET /api/v2/overview`. Pure.

In come the view and the tenants that the client may see; out come numbers of objects and endpoints,
the networks that are nearly full, and the services that nobody serves. Hosts are not told here:
who may see them asks `/api/v2/hosts`.
"""

from typing import Any, Final

from contivmodel.objects import RestObject
from contivmodel.schema import TEXT, Schema, named
from core import ids
from netmaster.codec import KINDS
from netmaster.plan.show import address_use
from netmaster.view import View

FULL: Final = 0.8
"""The share of a network's IPv4 addresses from which on it is nearly full."""
MOST: Final = 100
"""Networks and services that are named."""

_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_COUNTED: Final = tuple(
    KINDS[kind]
    for kind in ("tenant", "network", "endpointGroup", "policy", "rule", "serviceLB", "Bgp")
)
_SERVICE: Final = {
    "type": "object",
    "properties": dict.fromkeys(("key", "tenantName", "serviceName"), TEXT),
}
SCHEMA: Final = named(
    "Overview",
    {
        "type": "object",
        "properties": {
            "totals": {
                "type": "object",
                "properties": dict.fromkeys(
                    ("endpoints", *(model.plural for model in _COUNTED)), _COUNT
                ),
            },
            "full": {
                "type": "array",
                "items": {"type": "object", "properties": address_use.FIELDS},
                "description": f"networks with {FULL:.0%} of their IPv4 addresses used, the "
                "fullest first",
            },
            "unserved": {
                "type": "array",
                "items": _SERVICE,
                "description": "services without a provider",
            },
            "complete": {
                "type": "boolean",
                "description": f"false where there are more than {MOST} of either",
            },
        },
        "required": ["totals", "full", "unserved", "complete"],
    },
)


def overview(view: View, tenants: frozenset[str] | None) -> dict[str, Any]:
    """Return the overview of these tenants, None for everything."""
    networks = [
        nid for nid, one in view.networks.items() if tenants is None or one.tenant in tenants
    ]
    use = [address_use.shown(view, nid) for nid in networks]
    full = sorted(
        (one for one in use if _used(one) >= FULL), key=lambda one: (-_used(one), one["key"])
    )
    unserved = [
        {
            "key": ids.object_key(one.tenant, one.name),
            "tenantName": one.tenant,
            "serviceName": one.name,
        }
        for one in sorted(view.services.values(), key=lambda one: (one.tenant, one.name))
        if (tenants is None or one.tenant in tenants) and not view.providers(one)
    ]
    endpoints = sum(len(view.network_endpoints.get(nid, ())) for nid in networks)
    totals = {model.plural: _count(view, model, tenants) for model in _COUNTED}
    return {
        "totals": {"endpoints": endpoints, **totals},
        "full": full[:MOST],
        "unserved": unserved[:MOST],
        "complete": max(len(full), len(unserved)) <= MOST,
    }


def _used(network: dict[str, Any]) -> float:
    size = int(network["size"])
    return (size - int(network["free"])) / size if size else 0.0


def _count(view: View, model: type[RestObject], tenants: frozenset[str] | None) -> int:
    objects = view.objects[model.kind]
    if tenants is None:
        return len(objects)
    return sum(getattr(one, "tenant_name", None) in tenants for one in objects.values())
