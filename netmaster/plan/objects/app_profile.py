"""Decisions about application profiles (docs/original/netmaster-rest.md §2).

A profile is only its REST object. It names its groups; both show the relation.
"""

from contivmodel.objects import AppProfile, EndpointGroup, Link, Tenant, TenantLink
from contivmodel.wire import blank
from core import ids, keys
from core.errors import NotFound
from core.ids import TenantName
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View


def create(view: View, posted: AppProfile) -> Plan:
    """Create a profile of groups that exist."""
    key = posted.object_key()
    if key in view.objects[AppProfile.kind]:
        return update(view, posted)
    if posted.tenant_name not in view.objects[Tenant.kind]:
        raise NotFound(f"Tenant {posted.tenant_name} not found")
    _check_groups(view, posted)
    profile = posted.model_copy(
        update={
            "key": key,
            "link_sets": blank(AppProfile).link_sets,
            "links": TenantLink(tenant=Link(type=Tenant.kind, key=posted.tenant_name)),
        }
    )
    write = Write(keys.obj(AppProfile.kind, key), profile, new=True)
    return Plan((write,), reply=view.linked(profile))


def update(view: View, posted: AppProfile) -> Plan:
    """Replace a profile's groups."""
    stored = find(view, posted.object_key())
    _check_groups(view, posted)
    profile = stored.model_copy(update={"endpoint_groups": posted.endpoint_groups})
    write = Write(keys.obj(AppProfile.kind, profile.key), profile, new=False)
    return Plan((write,), reply=view.linked(profile))


def delete(view: View, key: str) -> Plan:
    """Delete a profile; its groups stay."""
    profile = find(view, key)
    if profile.tenant_name not in view.objects[Tenant.kind]:
        raise NotFound(f"Tenant {profile.tenant_name} not found")
    return Plan((Write(keys.obj(AppProfile.kind, key), None, new=False),), reply=key)


def find(view: View, key: str) -> AppProfile:
    """Return a stored profile."""
    profile = view.objects[AppProfile.kind].get(key)
    if not isinstance(profile, AppProfile):
        raise NotFound("appProfile not found")
    return profile


def _check_groups(view: View, posted: AppProfile) -> None:
    for name in posted.endpoint_groups:
        key = ids.object_key(TenantName(posted.tenant_name), name)
        if key not in view.objects[EndpointGroup.kind]:
            raise NotFound(f"EndpointGroup {key} not found")
