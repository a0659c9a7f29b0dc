"""Decisions about tenants (docs/original/netmaster-rest.md §2).

What its operators may create (`netmaster.plan.network_rights`) and how much it may have
(`netmaster.plan.quotas`) is all of one that can be changed.
"""

from typing import Final

from contivmodel.objects import AppProfile, EndpointGroup, Netprofile, Network, Policy, Tenant
from contivmodel.wire import blank
from core import ids, keys
from core.errors import Conflict, Invalid, NotFound
from netmaster.plan import network_rights, quotas
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View

_LIMITS: Final = ("network_prefixes", "address_quota", *quotas.ATTRIBUTES)
_IMMUTABLE: Final = "Cant change tenant parameters after its created"


def create(view: View, posted: Tenant) -> Plan:
    """Create a tenant, which is only its object."""
    key = posted.object_key()
    if not key:
        raise Invalid("Invalid tenant name")
    if key in view.objects[Tenant.kind]:
        return update(view, posted)
    network_rights.check_limits(posted)
    tenant = posted.model_copy(update={"key": key, "link_sets": blank(Tenant).link_sets})
    return Plan((Write(keys.obj(Tenant.kind, key), tenant, new=True),), reply=tenant)


def update(view: View, posted: Tenant) -> Plan:
    """Change prefixes and quotas where any are named, and refuse all else.

    To the original a tenant is immutable, so even a repeated creation is refused.
    """
    if not any(getattr(posted, name) for name in _LIMITS):
        if posted.object_key() not in view.objects[Tenant.kind]:
            raise NotFound("tenant not found")
        raise Conflict(_IMMUTABLE)
    return replace(view, posted)


def replace(view: View, posted: Tenant) -> Plan:
    """Change prefixes and quotas, also to none; nothing else of a tenant can be changed."""
    key = posted.object_key()
    stored = view.objects[Tenant.kind].get(key)
    if not isinstance(stored, Tenant):
        raise NotFound("tenant not found")
    changed = stored.model_copy(update={name: getattr(posted, name) for name in _LIMITS})
    if changed == stored or (posted.default_network not in {"", stored.default_network}):
        raise Conflict(_IMMUTABLE)
    network_rights.check_limits(changed)
    return Plan((Write(keys.obj(Tenant.kind, key), changed, new=False),), reply=changed)


def delete(view: View, key: str) -> Plan:
    """Delete a tenant that nothing belongs to."""
    if key not in view.objects[Tenant.kind]:
        raise NotFound("tenant not found")
    if app_profiles := len(view.members(AppProfile.kind, Tenant.kind, key)):
        raise Conflict(f"cannot delete {key}, has {app_profiles} app profiles")
    if groups := len(view.members(EndpointGroup.kind, Tenant.kind, key)):
        raise Conflict(f"cannot delete {key} has {groups} endpoint groups")
    if policies := len(view.members(Policy.kind, Tenant.kind, key)):
        raise Conflict(f"cannot delete {key} has {policies} policies")
    if netprofiles := len(view.members(Netprofile.kind, Tenant.kind, key)):
        raise Conflict(f"Cannot delete {key} has {netprofiles} netprofiles")
    if networks := len(view.members(Network.kind, Tenant.kind, key)):
        raise Conflict(f"cannot delete {key} has {networks} networks")
    return Plan((Write(keys.obj(Tenant.kind, key), None, new=False),), reply=key)


def startup(view: View) -> Plan:
    """Create the default tenant if there is none; a new leader does so before serving."""
    if ids.DEFAULT_TENANT in view.objects[Tenant.kind]:
        return Plan((), reply=view.read(Tenant.kind, ids.DEFAULT_TENANT))
    return create(view, Tenant(tenant_name=ids.DEFAULT_TENANT))
