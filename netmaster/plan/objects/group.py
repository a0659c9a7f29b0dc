"""Decisions about endpoint groups.

A group is its REST object and its record; a deletion also stores the cursor of group ids. Only the
object names its policies and external contracts; the record has a copy of the values of its network
profile. On an ACI fabric a group has a VLAN of its own, else its network's.

Source: docs/original/netmaster-rest.md §2, docs/original/netmaster-state.md §6.
"""

from collections.abc import Iterator
from dataclasses import replace

from contivmodel.objects import (
    AppProfile,
    EndpointGroup,
    EndpointGroupLinks,
    ExtContractsGroup,
    Link,
    Netprofile,
    Network,
    Policy,
    Tenant,
)
from contivmodel.wire import blank
from core import ids, keys
from core.addresses import ipv4_text, parse_pool
from core.errors import Conflict, Exhausted, Invalid, NotFound
from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName
from netmaster.plan import docker_network, exclusions
from netmaster.plan.grants import not_available
from netmaster.plan.model import Plan
from netmaster.plan.objects import netprofile, tags
from netmaster.stored import GroupIdCursor, Write
from netmaster.view import View, network_named, network_of
from state.records import Encap, GroupRecord, NetworkRecord


def create(view: View, posted: EndpointGroup) -> Plan:
    """Create a group, with its own id and address pool."""
    key = posted.object_key()
    if key in view.objects[EndpointGroup.kind]:
        return update(view, posted)
    tenant, name = TenantName(posted.tenant_name), GroupName(posted.group_name)
    network = _network_record(view, posted)
    pool = _pool(view, network, posted.ip_pool)
    exclude = exclusions.of_network(posted.exclude, network)
    tags.check(view, "group", posted.cfgd_tag, tenant)
    tag = posted.cfgd_tag or f"{name}.{tenant}"
    if tag in view.group_tags:
        holder = view.groups[view.group_tags[tag]]
        # Whose it is, is nothing that another tenant's operator may learn.
        by = f" by endpoint group {holder.key}" if holder.tenant == posted.tenant_name else ""
        raise Conflict(f"group tag {tag} is in use{by}")
    policies = _policies(view, posted)
    _check_attachments(view, posted)
    pkt_tag = _own_vlan(view, network) if view.is_aci else network.pkt_tag
    number = view.group_ids.following()
    if number is None:
        raise Exhausted("no endpoint group ids available")
    record = _record(posted, network, pool, tag, number)
    record = replace(record, pkt_tag=pkt_tag, exclude=exclude)
    record = netprofile.with_profile(record, _net_profile(view, posted))
    group = posted.model_copy(
        update={
            "key": key,
            "policies": policies,
            "link_sets": blank(EndpointGroup).link_sets,
            "links": EndpointGroupLinks(
                net_profile=_net_profile_link(posted),
                network=Link(type=Network.kind, key=ids.object_key(tenant, posted.network_name)),
                tenant=Link(type=Tenant.kind, key=tenant),
            ),
        }
    )
    writes = (
        Write(keys.obj(EndpointGroup.kind, key), group, new=True),
        Write(keys.group(record.key), record, new=True),
    )
    return Plan(writes, reply=view.linked(group))


def update(view: View, posted: EndpointGroup) -> Plan:
    """As `change`; what the group excludes stays where nothing is named.

    Clients of the original do not know of it and would drop it.
    """
    stored = view.objects[EndpointGroup.kind].get(posted.object_key())
    if isinstance(stored, EndpointGroup) and not posted.exclude:
        posted = posted.model_copy(update={"exclude": stored.exclude})
    return change(view, posted)


def change(view: View, posted: EndpointGroup) -> Plan:
    """Replace a group's policies, profile, contracts, and what it excludes.

    Network and pool cannot be changed. The configured tag keeps its first value, as in the
    original.
    """
    key = posted.object_key()
    stored = view.objects[EndpointGroup.kind].get(key)
    if not isinstance(stored, EndpointGroup):
        raise NotFound("endpointGroup not found")
    if posted.network_name != stored.network_name:
        raise Conflict("Cannot change network association after epg is created.")
    if posted.ip_pool != stored.ip_pool:
        raise Conflict("Cannot change IP pool after epg is created.")
    policies = _policies(view, posted)
    _check_attachments(view, posted)
    group = stored.model_copy(
        update={
            "exclude": posted.exclude,
            "ext_contracts_grps": posted.ext_contracts_grps,
            "net_profile": posted.net_profile,
            "policies": policies,
            "links": stored.links.model_copy(update={"net_profile": _net_profile_link(posted)}),
        }
    )
    return Plan(tuple(_changes(view, stored, group)), reply=view.linked(group))


def delete(view: View, key: str, *, in_swarm: bool = False) -> Plan:
    """Delete a group without endpoints; its pool returns to the network.

    In swarm mode no Docker network may map it.
    """
    group = view.objects[EndpointGroup.kind].get(key)
    if not isinstance(group, EndpointGroup):
        raise NotFound("endpointGroup not found")
    if profiles := view.members(AppProfile.kind, EndpointGroup.kind, key):
        raise Conflict(
            f"Cannot delete {group.group_name}, associated to appProfile {max(profiles)}"
        )
    what = f"group {group.group_name}"
    guards = (
        (docker_network.unmapped_guard(view, docker_network.identity_of(group), what),)
        if in_swarm
        else ()
    )
    group_key = _record_key(group)
    if group_key in view.group_endpoints:
        raise Conflict(f"Error: EPG {group.group_name} has active endpoints")
    writes = [Write(keys.obj(EndpointGroup.kind, key), None, new=False), *guards]
    if group_key in view.groups:
        writes.append(Write(keys.group(group_key), None, new=False))
        # Without the cursor a new leader would allocate the id of the deleted group again at once:
        # the ids in use no longer show that it was allocated (`netmaster.ipam.group_ids`).
        latest = GroupIdCursor(view.group_ids.latest())
        if latest != view.group_id_cursor:
            writes.append(Write(keys.GROUP_ID_CURSOR, latest, new=view.group_id_cursor is None))
    return Plan(tuple(writes), reply=key)


def _network_record(view: View, posted: EndpointGroup) -> NetworkRecord:
    tenant, network = TenantName(posted.tenant_name), NetworkName(posted.network_name)
    if tenant not in view.objects[Tenant.kind]:
        raise NotFound("Tenant not found")
    record = network_named(view, network, tenant)
    if record is None or ids.object_key(tenant, network) not in view.objects[Network.kind]:
        raise NotFound(f"Network {network} not found")
    if posted.object_key() in view.objects[Network.kind]:
        raise Conflict(f"Network {posted.group_name} conflicts with the endpointGroup name")
    return record


def _pool(view: View, network: NetworkRecord, text: str) -> str:
    """Return a pool as `a-b`. Refuses one that is not completely free in its network."""
    if not text:
        return ""
    if ":" in text:
        raise Invalid("ipv6 address pool is not supported for Endpoint Groups")
    try:
        low, high = parse_pool(text)
    except ValueError as exc:
        raise Invalid(f"invalid ip-pool {text}") from exc
    subnet = network.v4
    if subnet is None:
        raise Invalid(f"invalid ip-pool {text}: network {network.id} has no IPv4 subnet")
    if low > high or (low ^ high) >= subnet.size:
        raise Invalid(f"invalid ip-pool {text}")
    if low not in subnet or high not in subnet:
        raise Invalid(f"bad ip-pool {text}, EPG ip-pool must be a subset of network {subnet}")
    taken = _first_taken(view, network.id, low, high)
    if taken is not None:
        raise not_available(ipv4_text(taken))
    return f"{ipv4_text(low)}-{ipv4_text(high)}"


def _first_taken(view: View, nid: NetworkId, low: int, high: int) -> int | None:
    pool = view.addresses[nid].v4
    return low if pool is None else pool.first_taken(low, high)


def _policies(view: View, posted: EndpointGroup) -> list[str]:
    """Return the distinct names of a group's policies; all must exist."""
    tenant = TenantName(posted.tenant_name)
    for name in posted.policies:
        if ids.object_key(tenant, name) not in view.objects[Policy.kind]:
            raise NotFound("Policy not found")
    return list(dict.fromkeys(posted.policies))


def _changes(view: View, before: EndpointGroup, after: EndpointGroup) -> Iterator[Write]:
    if after != before:
        yield Write(keys.obj(EndpointGroup.kind, after.key), after, new=False)
    record = view.groups.get(_record_key(after))
    if record is None:
        return
    granted = netprofile.with_profile(record, _net_profile(view, after))
    if after.exclude != before.exclude:
        network = view.networks[network_of(record)]
        granted = replace(granted, exclude=exclusions.of_network(after.exclude, network))
    if granted != record:
        yield Write(keys.group(record.key), granted, new=False)


def _check_attachments(view: View, posted: EndpointGroup) -> None:
    _net_profile(view, posted)
    for name in posted.ext_contracts_grps:
        key = ids.object_key(TenantName(posted.tenant_name), name)
        if key not in view.objects[ExtContractsGroup.kind]:
            raise NotFound(f"External contracts group {name} not found")


def _net_profile(view: View, group: EndpointGroup) -> Netprofile | None:
    """Return the profile that a group names, if any; NotFound if it does not exist."""
    link = _net_profile_link(group)
    return netprofile.find(view, link.key) if link.key else None


def _net_profile_link(group: EndpointGroup) -> Link:
    if not group.net_profile:
        return Link()
    key = ids.object_key(TenantName(group.tenant_name), group.net_profile)
    return Link(type=Netprofile.kind, key=key)


def _own_vlan(view: View, network: NetworkRecord) -> int:
    if network.encap is not Encap.VLAN:
        raise Invalid("network type must be VLAN for ACI mode")
    return view.segments.choose(Encap.VLAN, 0).pkt_tag


def _record_key(group: EndpointGroup) -> GroupKey:
    return ids.group_key(GroupName(group.group_name), TenantName(group.tenant_name))


def _record(
    posted: EndpointGroup, network: NetworkRecord, pool: str, tag: str, number: int
) -> GroupRecord:
    return GroupRecord(
        tenant=TenantName(posted.tenant_name),
        name=GroupName(posted.group_name),
        network=NetworkName(posted.network_name),
        group_id=number,
        encap=network.encap,
        pkt_tag=network.pkt_tag,
        ext_pkt_tag=network.ext_pkt_tag,
        dscp=0,
        bandwidth="",
        burst=0,
        ip_pool=pool,
        group_tag=tag,
        subnet_len=network.subnet_len if pool else 0,
    )
