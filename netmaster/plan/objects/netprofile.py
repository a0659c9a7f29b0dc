"""Decisions about network profiles: rate limits and DSCP of groups.

A profile is only its REST object. Its values are copied into the record of every group that names
it, because agents read records only. A change of a profile commits the object and the first of its
groups; the others follow in parts, and `sync_groups` finds any that a failure has left out.

Source: docs/original/netmaster-rest.md §2.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from contivmodel.objects import EndpointGroup, Link, Netprofile, Tenant, TenantLink
from contivmodel.wire import blank
from core import ids, keys
from core.errors import Conflict, Invalid, NotFound
from core.ids import GroupName, TenantName
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from state.records import GroupRecord

CHUNK: Final = 16
"""How many groups' records one transaction changes."""

UNUSABLE_BURST: Final = 1


def create(view: View, posted: Netprofile) -> Plan:
    """Create a profile."""
    key = posted.object_key()
    if key in view.objects[Netprofile.kind]:
        return update(view, posted)
    if not posted.tenant_name:
        raise Invalid("Invalid tenant name")
    if posted.burst == UNUSABLE_BURST:
        raise Invalid("Invalid Burst size. burst size > 1500 bytes")
    if posted.tenant_name not in view.objects[Tenant.kind]:
        raise NotFound("Tenant not found")
    profile = posted.model_copy(
        update={
            "key": key,
            "link_sets": blank(Netprofile).link_sets,
            "links": TenantLink(tenant=Link(type=Tenant.kind, key=posted.tenant_name)),
        }
    )
    write = Write(keys.obj(Netprofile.kind, key), profile, new=True)
    return Plan((write,), reply=view.linked(profile))


def update(view: View, posted: Netprofile) -> Plan:
    """Change the values of a profile, for all groups that name it."""
    stored = find(view, posted.object_key())
    if posted.burst == UNUSABLE_BURST:
        raise Invalid("Invalid Burst size. burst size must be > 1500 bytes")
    profile = stored.model_copy(
        update={"bandwidth": posted.bandwidth, "burst": posted.burst, "dscp": posted.dscp}
    )
    reply = view.linked(profile)
    if profile == stored:
        return Plan((), reply)
    outdated = _outdated(view, profile)
    writes = (
        Write(keys.obj(Netprofile.kind, profile.key), profile, new=False),
        *islice(outdated, CHUNK),
    )
    more = next(outdated, None) is not None
    return Plan(writes, reply, then=partial(_sync_more, key=profile.key) if more else None)


def delete(view: View, key: str) -> Plan:
    """Delete a profile that no group names."""
    profile = find(view, key)
    if profile.tenant_name not in view.objects[Tenant.kind]:
        raise NotFound(f"Tenant {profile.tenant_name} not found")
    if view.members(EndpointGroup.kind, Netprofile.kind, key):
        raise Conflict("NetProfile is being used")
    return Plan((Write(keys.obj(Netprofile.kind, key), None, new=False),), reply=key)


def find(view: View, key: str) -> Netprofile:
    """Return a stored profile."""
    profile = view.objects[Netprofile.kind].get(key)
    if not isinstance(profile, Netprofile):
        raise NotFound("netprofile not found")
    return profile


def with_profile(record: GroupRecord, profile: Netprofile | None) -> GroupRecord:
    """Return a group's record with the values of its profile, empty ones without a profile."""
    profile = profile or Netprofile()
    return replace(record, bandwidth=profile.bandwidth, burst=profile.burst, dscp=profile.dscp)


def sync_groups(view: View) -> Plan:
    """Sync some records with their profiles; the reply is how many. Repeat until it is 0."""
    profiles = (find(view, key) for key in view.objects[Netprofile.kind])
    writes = tuple(islice(_all_outdated(view, profiles), CHUNK))
    return Plan(writes, reply=len(writes))


def _sync_more(view: View, key: str) -> Plan:
    """Sync the next records with one profile, which may be deleted meanwhile."""
    profile = view.objects[Netprofile.kind].get(key)
    if not isinstance(profile, Netprofile):
        return Plan((), reply=None)
    outdated = _outdated(view, profile)
    writes = tuple(islice(outdated, CHUNK))
    more = next(outdated, None) is not None
    return Plan(writes, reply=None, then=partial(_sync_more, key=key) if more else None)


def _all_outdated(view: View, profiles: Iterable[Netprofile]) -> Iterator[Write]:
    for profile in profiles:
        yield from _outdated(view, profile)


def _outdated(view: View, profile: Netprofile) -> Iterator[Write]:
    """Yield the writes that sync the records of a profile's groups with it."""
    for key in view.members(EndpointGroup.kind, Netprofile.kind, profile.key):
        tenant, _, name = key.partition(":")
        before = view.groups.get(ids.group_key(GroupName(name), TenantName(tenant)))
        if before is None:
            continue
        after = with_profile(before, profile)
        if after != before:
            yield Write(keys.group(after.key), after, new=False)
