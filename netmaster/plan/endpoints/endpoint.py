"""Decisions about endpoints: an endpoint's record and its grants are written together.

One transaction has the record and one grant for each address (docs/original/netmaster-state.md §7,
ADR 10). A repeated request for an endpoint is answered with the existing one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from contivmodel.rpc import CreateEndpointRequest, DeleteEndpointRequest, UpdateEndpointRequest
from core import ids, keys
from core.addresses import ipv4, ipv6
from core.errors import Conflict, Invalid, NotFound
from core.ids import EndpointKey, GroupName, HostLabel, TenantName
from netmaster.plan.endpoints import drain, kept, live_migration, mac
from netmaster.plan.grants import (
    AddressSource,
    Usable,
    address_source,
    choose4,
    choose6,
    grant_write,
)
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View, network_named, network_of, own_network_id
from state.derive import labels_text
from state.records import EndpointRecord, GrantOwner, GrantRecord, NetworkType

ACI_GROUP: Final = "default-group"
"""The group of endpoints that name none, on an ACI fabric."""

MAX_LABELS: Final = 1024
MAX_LABELS_BYTES: Final = 64 * 1024
"""Limits of an endpoint's labels, which every agent keeps."""


def create(
    view: View, request: CreateEndpointRequest, now: float, *, in_swarm: bool = False
) -> Plan:
    """Create a container's endpoint with its addresses; `now` is wall-clock time.

    A requested address that is reserved is taken over from the reservation; in swarm mode it stays
    reserved, too. So is one that the endpoint's host holds ahead, by the token of its grant. A
    requested MAC address is the endpoint's, if it is free. With a name to keep the addresses for,
    it has those that are kept already, unless it asks for others.

    That of a pod which awaits its machine is not created while the machine runs in another pod: the
    reply is what it will be. Once it runs here, it replaces that one (`live_migration`).
    """
    config = request.config
    tenant = TenantName(request.tenant_name)
    network = network_named(view, request.network_name, tenant)
    if network is None:
        raise NotFound("key not found")
    nid = network.id
    if not config.container:
        raise Invalid(f"the endpoint on network {nid} has no container id (ConfigEP.Container)")
    key = ids.endpoint_key(nid, config.container)
    existing = view.endpoints.get(key)
    if existing is not None:
        if existing.network != nid:
            raise Conflict(f"endpoint id {key} is in use on network {existing.network}")
        # The agent repeats a request whose answer it did not get. It must get the same addresses,
        # and no second endpoint: the container may be using the first one already.
        return Plan((), reply=existing)
    if not request.claim:  # a drained host keeps the pods that it has
        drain.check(view, HostLabel(config.host))
    group_key = None
    service = config.service_name
    if view.is_aci and network.type is not NetworkType.INFRA:
        service = service or ACI_GROUP
    if service:
        group_key = ids.group_key(GroupName(service), tenant)
    source = address_source(view, network, group_key)
    member = source.group if network.type is not NetworkType.INFRA else None
    token = _own_token(request)
    source_pod = live_migration.source(view, nid, request)
    found = kept.find(view, nid, request.keep, source_pod)
    # A report of an address that a host gave may come late, when the pod is gone and the address is
    # reserved for somebody else by now.
    usable = Usable(
        None if token else GrantOwner.RESERVATION,
        token=token,
        keep=request.keep,
        leaving=source_pod,
    )
    running = bool(request.claim)
    address = address6 = ""
    # A machine that runs has its address: it is had, or refused.
    if network.subnet:
        good = source_pod.ip_address if source_pod else _still_good4(source, found.ipv4)
        asked = config.ip_address or good
        address = choose4(source, asked, usable=usable, running=running)
    if network.ipv6_subnet:
        good = source_pod.ipv6_address if source_pod else _still_good6(source, found.ipv6)
        asked = config.ipv6_address or good
        address6 = choose6(source, asked, usable=usable, running=running)
    asked_mac = config.mac_address or found.mac or (source_pod.mac_address if source_pod else "")
    endpoint = EndpointRecord(
        key=key,
        network=nid,
        endpoint_id=config.container,
        service_name=service,
        group_id=member.group_id if member else 0,
        group_key=member.key if member else "",
        ip_address=address,
        ipv6_address=address6,
        mac_address=mac.choose(
            view,
            nid,
            asked_mac,
            address,
            address6,
            asked6=config.ipv6_address,
            keep=request.keep,
            leaving=source_pod,
        ),
        homing_host=HostLabel(config.host),
        intf_name="",
        vtep_ip="",
        labels=_checked_labels(key, request.labels) if request.labels else None,
        container_id="",
        common_name=request.common_name,
    )
    if source_pod is not None and request.awaits_machine:
        return Plan((), reply=live_migration.Awaiting(endpoint, source_pod))
    writes = _create_writes(view, source, endpoint, now, stays_reserved=in_swarm, keep=request.keep)
    left = kept.not_taken(found, nid, (address, address6))
    if source_pod is None:
        return Plan((*writes, *left), reply=endpoint)
    # One write for each key: the new owner of an address is the last word on it.
    gone = {write.key: write for write in remove(view, source_pod).writes}
    by_key = {**gone, **{write.key: write for write in (*left, *writes)}}
    return Plan(tuple(by_key.values()), reply=endpoint)


def delete(view: View, request: DeleteEndpointRequest) -> Plan:
    """Remove an endpoint and release its addresses; its network may be deleted already."""
    endpoint = _named(view, request)
    if endpoint is None:
        raise NotFound("key not found")
    return remove(view, endpoint)


def update(view: View, request: UpdateEndpointRequest) -> Plan:
    """Record that an endpoint's container started, with its labels, or died.

    From then on it is a provider of the services that select it, or of none. The reply is the
    address as sent; None for the death of an unknown container. The event "labels", which the
    original does not have, replaces the labels. Other events change nothing.
    """
    match request.event:
        case "start":
            return _start(view, request)
        case "labels":
            return _label(view, request)
        case "die":
            return _die(view, request)
        case _:
            return Plan((), reply=request.ip_address)


def remove(view: View, endpoint: EndpointRecord) -> Plan:
    """Return the plan that removes an endpoint that exists; the reply is its record."""
    addresses = view.addresses.get(endpoint.network)
    writes = [Write(keys.endpoint(endpoint.key), None, new=False)]
    for address in (endpoint.ip_address, endpoint.ipv6_address):
        grant = addresses.grants.get(address) if addresses else None
        # Only its own grants: after a foreign write the address may belong to another owner, who
        # must keep it.
        if grant and grant.owner is GrantOwner.ENDPOINT and grant.owner_id == endpoint.key:
            after = _reservation(endpoint, grant) if grant.reserved else None
            after = kept.after(endpoint, grant) if grant.kept_for else after
            writes.append(Write(keys.grant(endpoint.network, address), after, new=False))
    return Plan(tuple(writes), reply=endpoint)


def hosts_of_create(view: View, request: CreateEndpointRequest) -> frozenset[HostLabel]:
    """Return the host of a new endpoint, and that of the existing one which would be answered."""
    hosts = {HostLabel(request.config.host)}
    network = network_named(view, request.network_name, request.tenant_name)
    if network is None:
        return frozenset(hosts)
    existing = view.endpoints.get(ids.endpoint_key(network.id, request.config.container))
    return frozenset(hosts | {existing.homing_host} if existing else hosts)


def hosts_of_update(view: View, request: UpdateEndpointRequest) -> frozenset[HostLabel]:
    """Return the hosts of the endpoints that a request changes."""
    match request.event:
        case "start" | "labels":
            try:
                return frozenset({_started(view, request).homing_host})
            except NotFound:
                return frozenset()
        case "die":
            dead = view.same_container_id.get(request.container_id) or ()
            return frozenset(view.endpoints[key].homing_host for key in dead)
        case _:
            return frozenset()


def hosts_of_delete(view: View, request: DeleteEndpointRequest) -> frozenset[HostLabel]:
    """Return the host of an endpoint that is to be removed, nothing if there is none."""
    endpoint = _named(view, request)
    return frozenset({endpoint.homing_host} if endpoint else ())


def _still_good4(source: AddressSource, kept_address: str) -> str:
    """Return a kept IPv4 address, "" if the endpoint may not have it any more.

    Its group may have another pool now, and a host or master may need the address.
    """
    if not kept_address:
        return ""
    number = ipv4(kept_address)
    good = source.v4.group_of(number) == source.pool_owner and number not in source.reserved
    return kept_address if good else ""


def _still_good6(source: AddressSource, kept_address: str) -> str:
    """As `_still_good4`, for IPv6, where groups have no pools."""
    return "" if kept_address and ipv6(kept_address) in source.reserved else kept_address


def _own_token(request: CreateEndpointRequest) -> str:
    """Return the token of a request. Raises Conflict for that of another host."""
    host, _, _ = request.block.partition("/")
    if request.block and host != request.config.host:
        raise Conflict(f"the address block is of host {host}, not of {request.config.host}")
    return request.block


def _named(view: View, request: DeleteEndpointRequest) -> EndpointRecord | None:
    nid = own_network_id(view, request.network_name, request.tenant_name)
    if nid is None:
        return None
    endpoint = view.endpoints.get(ids.endpoint_key(nid, request.endpoint_id))
    return None if endpoint is None or endpoint.network != nid else endpoint


def _start(view: View, request: UpdateEndpointRequest) -> Plan:
    endpoint = _started(view, request)
    if not request.container_id:
        shown = labels_text(request.labels)
        raise Invalid(
            f"invalid ProviderID from providerInfo:{{&{{{request.ip_address}  "
            f"{shown} {request.tenant} {request.network} []  {endpoint.key}}}}}"
        )
    running = replace(
        endpoint,
        labels=_merged_labels(endpoint, request.labels),
        container_id=request.container_id,
        common_name=request.common_name,
    )
    if running == endpoint:
        return Plan((), reply=request.ip_address)
    write = Write(keys.endpoint(endpoint.key), running, new=False)
    return Plan((write,), reply=request.ip_address)


def _label(view: View, request: UpdateEndpointRequest) -> Plan:
    endpoint = _started(view, request)
    labels = _checked_labels(endpoint.key, request.labels)
    if labels == (endpoint.labels or {}):
        return Plan((), reply=request.ip_address)
    write = Write(keys.endpoint(endpoint.key), replace(endpoint, labels=labels), new=False)
    return Plan((write,), reply=request.ip_address)


def _merged_labels(endpoint: EndpointRecord, more: Mapping[str, str]) -> dict[str, str]:
    """Return old and new labels. Raises Invalid for more than a record can reasonably hold."""
    return _checked_labels(endpoint.key, {**(endpoint.labels or {}), **more})


def _checked_labels(key: EndpointKey, labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels. Raises Invalid for more than a record can reasonably hold."""
    size = sum(len(name.encode()) + len(value.encode()) for name, value in labels.items())
    if len(labels) > MAX_LABELS or size > MAX_LABELS_BYTES:
        raise Invalid(
            f"endpoint {key}: {len(labels)} labels of {size} bytes; "
            f"{MAX_LABELS} of {MAX_LABELS_BYTES} bytes are allowed"
        )
    return dict(labels)


def _started(view: View, request: UpdateEndpointRequest) -> EndpointRecord:
    tenant = TenantName(request.tenant)
    network = network_named(view, request.network, tenant)
    if network is not None:
        nid = network.id
    else:
        group = view.groups.get(ids.group_key(GroupName(request.network), tenant))
        if group is None:
            raise NotFound("key not found")
        nid = network_of(group)
    endpoint = view.endpoints.get(ids.endpoint_key(nid, request.endpoint_id))
    if endpoint is None or endpoint.network != nid:
        raise NotFound("key not found")
    return endpoint


def _die(view: View, request: UpdateEndpointRequest) -> Plan:
    if not request.container_id:
        raise Invalid("invalid containerID in UpdateEndpointRequest:(nil)")
    dead = view.same_container_id.get(request.container_id)
    if not dead:
        return Plan((), reply=None)
    writes = tuple(
        Write(keys.endpoint(key), replace(view.endpoints[key], container_id=""), new=False)
        for key in dead
    )
    return Plan(writes, reply=request.ip_address)


def _create_writes(
    view: View,
    source: AddressSource,
    endpoint: EndpointRecord,
    now: float,
    *,
    stays_reserved: bool,
    keep: str,
) -> tuple[Write, ...]:
    record = Write(keys.endpoint(endpoint.key), endpoint, new=True)
    addresses = filter(None, (endpoint.ip_address, endpoint.ipv6_address))
    grants = []
    for number, address in enumerate(addresses):
        before = source.addresses.grants.get(address)
        grant = GrantRecord(
            owner=GrantOwner.ENDPOINT,
            owner_id=endpoint.key,
            seq=view.next_seq + number,
            granted_at=now,
            reserved=stays_reserved and before is not None and before.owner is not GrantOwner.BLOCK,
            kept_for=keep,
        )
        grants.append(grant_write(source, address, grant))
    return record, *grants


def _reservation(endpoint: EndpointRecord, grant: GrantRecord) -> GrantRecord:
    """Return what an endpoint leaves of a grant that is reserved as well."""
    owner = endpoint.group_key
    return replace(grant, owner=GrantOwner.RESERVATION, owner_id=owner, reserved=False)
