"""The operational state that `inspect` shows of an object: counts, lists and endpoints.

Answers are plain data under the original's field names (docs/original/netmaster-rest.md §2); the
edge omits empty values. Everything is derived from the view.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, overload

from contivmodel.objects import (
    AciGw,
    AppProfile,
    EndpointGroup,
    Global,
    Netprofile,
    Network,
    Policy,
    Tenant,
)
from contivmodel.service_objects import ServiceLB
from core import ids
from core.errors import Conflict, NotFound
from core.ids import EndpointKey, GroupName, TenantName
from netmaster.indexes.endpoint_index import with_id
from netmaster.plan import quotas
from netmaster.view import View, network_named, network_of
from state import derive
from state.records import EndpointRecord, GroupRecord, NetworkRecord

Oper = dict[str, Any]


class EndpointStates(Sequence[Oper]):
    """What is shown of endpoints, made of their records when it is asked for."""

    def __init__(self, records: Iterable[EndpointRecord]) -> None:
        self.records: Final = tuple(records)

    @overload
    def __getitem__(self, index: int) -> Oper: ...
    @overload
    def __getitem__(self, index: slice) -> "EndpointStates": ...
    def __getitem__(self, index: int | slice) -> "Oper | EndpointStates":
        if isinstance(index, slice):
            return EndpointStates(self.records[index])
        return endpoint_state(self.records[index])

    def __len__(self) -> int:
        return len(self.records)


def tenant(view: View, key: str) -> Oper:
    """Return totals, and every network and group with its endpoints."""
    if key not in view.objects[Tenant.kind]:
        raise NotFound("tenant not found")
    networks = [
        _network_record(view, member) for member in view.members(Network.kind, Tenant.kind, key)
    ]
    groups = [
        _group_record(view, member) for member in view.members(EndpointGroup.kind, Tenant.kind, key)
    ]
    limits = {
        what: {"used": has, "allowed": may}
        for what, (has, may) in quotas.used(view, TenantName(key)).items()
    }
    return {
        "endpointGroups": [_without(_group(view, group), "groupTag", *_LISTS) for group in groups],
        "networks": [_without(_network(view, network), "networkTag") for network in networks],
        "totalAppProfiles": len(view.members(AppProfile.kind, Tenant.kind, key)),
        "totalEPGs": len(groups),
        "totalEndpoints": sum(
            len(view.network_endpoints.get(network.id, ())) for network in networks
        ),
        "totalNetprofiles": len(view.members(Netprofile.kind, Tenant.kind, key)),
        "totalNetworks": len(networks),
        "totalPolicies": len(view.members(Policy.kind, Tenant.kind, key)),
        "totalServicelbs": len(view.members(ServiceLB.kind, Tenant.kind, key)),
        **({"quotas": limits} if limits else {}),
    }


def network(view: View, key: str) -> Oper:
    """Return a network's tags, addresses and endpoints."""
    if key not in view.objects[Network.kind]:
        raise NotFound("network not found")
    return _network(view, _network_record(view, key))


def group(view: View, key: str) -> Oper:
    """Return a group's tags, the addresses of its pool, and its endpoints."""
    if key not in view.objects[EndpointGroup.kind]:
        raise NotFound("endpointGroup not found")
    return _group(view, _group_record(view, key))


def policy(view: View, key: str) -> Oper:
    """Return the endpoints of the groups that a policy holds for."""
    if key not in view.objects[Policy.kind]:
        raise NotFound("policy not found")
    members = [
        member
        for group_key in view.members(EndpointGroup.kind, Policy.kind, key)
        for member in view.group_endpoints.get(_group_record(view, group_key).key, {})
    ]
    return {"endpoints": _endpoints(view, members), "numEndpoints": len(members)}


def global_(view: View, key: str) -> Oper:
    """Return the tags in use, of the global object; the edge adds the cluster mode."""
    if key not in view.objects[Global.kind]:
        raise NotFound("global not found")
    segments = view.segments
    return {
        "freeVXLANsStart": segments.vxlans_start,
        "numNetworks": len(segments.vlans) + len(segments.vxlans),
        "vlansInUse": segments.vlans_text,
        "vxlansInUse": segments.vxlans_text,
    }


def aci_gateway(view: View, key: str) -> Oper:
    """Return how many application profiles there are."""
    if key not in view.objects[AciGw.kind]:
        raise NotFound("aciGw not found")
    return {"numAppProfiles": len(view.objects[AppProfile.kind])}


def service(view: View, key: str) -> Oper:
    """Return a service's address and the endpoints that serve it."""
    found = view.objects[ServiceLB.kind].get(key)
    if not isinstance(found, ServiceLB):
        raise NotFound("serviceLB not found")
    name, tenant_name = found.service_name, TenantName(found.tenant_name)
    record = view.services.get(ids.service_key(name, tenant_name))
    if record is None:
        raise NotFound("invalid Service name. Oper state does not exist")
    serving = [
        {**endpoint_state(one.endpoint), "serviceName": name} for one in view.providers(record)
    ]
    return {
        "numProviders": len(serving),
        "providers": serving,
        "serviceVip": record.ip_address,
    }


def endpoint(view: View, key: str, tenants: Collection[str] | None = None) -> Oper:
    """Return the endpoint of an id or name, or of a part of one, as `find_endpoint` does."""
    return {"key": key, **endpoint_state(find_endpoint(view, key, tenants))}


def find_endpoint(view: View, text: str, tenants: Collection[str] | None = None) -> EndpointRecord:
    """Return the endpoint with that id, else the one whose names match the text best.

    Only endpoints of `tenants` are there for the client; None for all. Raises Conflict for a part
    of the names of several endpoints.
    """
    same = [one for one in with_id(view.endpoints, text) if _is_of(view, one, tenants)]
    if same:
        return view.endpoints[min(same)]
    fits = [
        (fit, key)
        for key, record in view.endpoints.items()
        if (fit := _fit(record, text)) < _MISS and _is_of(view, key, tenants)
    ]
    if not fits:
        raise NotFound("endpoint not found")
    best, key = min(fits)
    if best and sum(fit == best for fit, _ in fits) > 1:
        raise Conflict(f"endpoint {text} is ambiguous, name it in full")
    return view.endpoints[key]


def endpoint_called(
    view: View, text: str, tenants: Collection[str] | None = None
) -> EndpointRecord:
    """Return the endpoint with that key, as API v2 shows it, else what `find_endpoint` returns."""
    key = EndpointKey(text)
    if key in view.endpoints and _is_of(view, key, tenants):
        return view.endpoints[key]
    return find_endpoint(view, text, tenants)


_MISS = 3


def _is_of(view: View, key: EndpointKey, tenants: Collection[str] | None) -> bool:
    """Return whether an endpoint is of one of these tenants; the network's record says of which."""
    if tenants is None:
        return True
    network = view.networks.get(view.endpoints[key].network)
    return network is not None and network.tenant in tenants


def _fit(record: EndpointRecord, text: str) -> int:
    """Return how well a text matches an endpoint: 0 a whole name, 1 a prefix, 2 a part of one."""
    best = _MISS
    for name in (record.endpoint_id, record.container_id, record.common_name):
        place = name.find(text)
        if name == text:
            return 0
        if place >= 0:
            best = min(best, 1 if place == 0 else 2)
    return best


_LISTS = ("allocatedIPAddresses", "availableIPAddresses")


def _network(view: View, record: NetworkRecord) -> Oper:
    grants = view.addresses[record.id].grants
    # The network shows all addresses of a group's pool as allocated.
    pools = [
        pool.ip_pool
        for link in view.members(
            EndpointGroup.kind, Network.kind, ids.object_key(record.tenant, record.name)
        )
        if (pool := _group_record(view, link)).ip_pool
    ]
    lists = derive.network_addresses(record, grants, pools)
    endpoints = view.network_endpoints.get(record.id, {})
    return {
        "allocatedAddressesCount": derive.address_count(grants.values()),
        "allocatedIPAddresses": lists.allocated,
        "availableIPAddresses": lists.available,
        "endpoints": _endpoints(view, endpoints),
        "externalPktTag": record.ext_pkt_tag,
        "networkTag": record.network_tag,
        "numEndpoints": len(endpoints),
        "pktTag": record.pkt_tag,
    }


def _group(view: View, record: GroupRecord) -> Oper:
    nid = network_of(record)
    exclude = record.exclude + (view.networks[nid].exclude if nid in view.networks else ())
    lists = derive.group_addresses(record.ip_pool, view.addresses[nid].grants, exclude)
    endpoints = view.group_endpoints.get(record.key, {})
    return {
        "allocatedIPAddresses": lists.allocated,
        "availableIPAddresses": lists.available,
        "endpoints": _endpoints(view, endpoints),
        "externalPktTag": record.ext_pkt_tag,
        "groupTag": record.group_tag,
        "numEndpoints": len(endpoints),
        "pktTag": record.pkt_tag,
    }


def _endpoints(view: View, members: Iterable[EndpointKey]) -> EndpointStates:
    return EndpointStates(view.endpoints[key] for key in members)


def endpoint_state(record: EndpointRecord) -> Oper:
    """Return what is shown of an endpoint."""
    return {
        "containerID": record.container_id,
        "containerName": record.common_name,
        "endpointGroupId": record.group_id,
        "endpointGroupKey": record.group_key,
        "endpointID": record.endpoint_id,
        "homingHost": record.homing_host,
        "intfName": record.intf_name,
        "ipAddress": [record.ip_address, record.ipv6_address],
        "labels": derive.labels_text(record.labels),
        "macAddress": record.mac_address,
        "network": record.network,
        "serviceName": record.service_name,
        "vtepIP": record.vtep_ip,
    }


def _network_record(view: View, key: str) -> NetworkRecord:
    tenant_name, _, name = key.partition(":")
    record = network_named(view, name, tenant_name)
    if record is None:
        raise NotFound("key not found")
    return record


def _group_record(view: View, key: str) -> GroupRecord:
    tenant_name, _, name = key.partition(":")
    record = view.groups.get(ids.group_key(GroupName(name), TenantName(tenant_name)))
    if record is None:
        raise NotFound("key not found")
    return record


def _without(oper: Oper, *names: str) -> Oper:
    return {name: value for name, value in oper.items() if name not in names}
