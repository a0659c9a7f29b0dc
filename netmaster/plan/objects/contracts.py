"""Decisions about groups of external contracts (docs/original/netmaster-rest.md §2).

They are contracts that exist in an ACI fabric; groups that name them provide or consume them. They
are sent to the gateway with the application profile of such a group
(`netmaster.plan.external.aci`).
"""

from typing import Final

from contivmodel.objects import EndpointGroup, ExtContractsGroup, Tenant
from contivmodel.wire import blank
from core import keys
from core.errors import Conflict, Invalid, NotFound
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View

PROVIDED: Final = "provided"
CONSUMED: Final = "consumed"


def create(view: View, posted: ExtContractsGroup) -> Plan:
    """Create a group of contracts."""
    key = posted.object_key()
    if key in view.objects[ExtContractsGroup.kind]:
        return update(view, posted)
    if posted.contracts_type not in (PROVIDED, CONSUMED):
        raise Invalid("Contracts group need to be either 'provided' or 'consumed'")
    if posted.tenant_name not in view.objects[Tenant.kind]:
        raise NotFound(f"Tenant {posted.tenant_name} not found")
    contracts = posted.model_copy(
        update={"key": key, "link_sets": blank(ExtContractsGroup).link_sets}
    )
    write = Write(keys.obj(ExtContractsGroup.kind, key), contracts, new=True)
    return Plan((write,), reply=view.linked(contracts))


def update(view: View, posted: ExtContractsGroup) -> Plan:
    """Refuse: contracts are immutable, so even a repeated creation is refused."""
    if posted.object_key() not in view.objects[ExtContractsGroup.kind]:
        raise NotFound("extContractsGroup not found")
    raise Conflict("external contracts update not supported")


def delete(view: View, key: str) -> Plan:
    """Delete contracts that no group names."""
    if key not in view.objects[ExtContractsGroup.kind]:
        raise NotFound("extContractsGroup not found")
    if view.members(EndpointGroup.kind, ExtContractsGroup.kind, key):
        raise Conflict("External contracts group is in-use")
    return Plan((Write(keys.obj(ExtContractsGroup.kind, key), None, new=False),), reply=key)
