"""Decisions about networks.

A network is its REST object, its record and the grants of its gateways, written and deleted
together. Checks and their order are the original's. Additional refusals: a gateway that no host can
have, an IPv6 gateway outside its subnet, the tag of another network, and addresses that others need
(`netmaster.plan.address_space`). What it excludes is all of a network that can be changed.

Source: docs/original/netmaster-rest.md §2, docs/original/netmaster-state.md §4.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from contivmodel.objects import EndpointGroup, Global, Link, Network, NetworkLinks, Tenant
from contivmodel.service_objects import ServiceLB
from contivmodel.wire import blank
from core import ids, keys
from core.addresses import ipv4_text, ipv6_text
from core.errors import Conflict, Invalid, NotFound
from core.ids import NetworkId, NetworkName, TenantName
from netmaster.ipam import claims, pool6
from netmaster.ipam.claims import Claim
from netmaster.ipam.segments import Segment
from netmaster.plan import address_space, docker_network, exclusions, older_readers
from netmaster.plan.grants import in_subnet4, in_subnet6, not_available
from netmaster.plan.model import Plan
from netmaster.plan.objects import tags
from netmaster.stored import Write
from netmaster.view import View, network_named
from state.records import Encap, GrantOwner, GrantRecord, NetworkRecord, NetworkType

SHORTEST: Final = 8
_IMMUTABLE: Final = "Cant change network parameters after its created"
_FIXED: Final = (
    *("cfgd_tag", "encap", "first_family", "gateway", "ipv6_gateway", "ipv6_subnet", "nw_type"),
    *("pkt_tag", "subnet"),
)
SWEEP: Final = 24
"""How many reservations, and addresses that hosts hold ahead, are deleted with their network.

`reclaim` of `netmaster.plan.endpoints.address` and `address_blocks` deletes any others.
"""


def create(view: View, posted: Network) -> Plan:
    """Create a network and grant the addresses of its gateways."""
    key = posted.object_key()
    if key in view.objects[Network.kind]:
        return update(view, posted)
    tenant, name = TenantName(posted.tenant_name), NetworkName(posted.network_name)
    nid = ids.network_id(name, tenant)
    _check_ready(view)
    if tenant not in view.objects[Tenant.kind]:
        raise NotFound("Tenant not found" if tenant else "Invalid tenant name")
    claim = _claim(posted)
    _check_overlap(view, posted, claim)
    if key in view.objects[EndpointGroup.kind]:
        raise Conflict(f"EndpointGroup {name} conflicts with the network name")
    if nid in view.networks:
        raise Conflict(f"network id {nid} is in use by another network")
    _check_subnets(claim)
    if posted.first_family == "ipv6" and claim.v6 is None:
        raise Invalid(f"firstFamily is ipv6, and network {name} has no ipv6Subnet")
    if claim.v4 is None:
        older_readers.check_ipv6(
            view, "networks with IPv6 alone", ", or give the network a subnet of IPv4 as well"
        )
        if posted.nw_type == NetworkType.INFRA:
            raise Invalid(f"infra network {name} needs a subnet of IPv4")
    tags.check(view, "network", posted.cfgd_tag, tenant)
    tag = posted.cfgd_tag or nid
    if tag in view.network_tags:
        raise Conflict(f"network tag {tag} is in use{_by(view, view.network_tags[tag], tenant)}")
    gateways = tuple(_gateways(posted, claim))
    exclude = exclusions.checked(posted.exclude, claim.v4.subnet if claim.v4 else None, claim.v6)
    encap = Encap(posted.encap)
    segment = view.segments.choose(encap, posted.pkt_tag)
    record = replace(_record(posted, claim, tag, segment), exclude=exclude)
    address_space.check_network(view, record, claim)
    network = posted.model_copy(
        update={
            "key": key,
            "link_sets": blank(Network).link_sets,
            "links": NetworkLinks(tenant=Link(type=Tenant.kind, key=tenant)),
        }
    )
    writes = (
        Write(keys.obj(Network.kind, key), network, new=True),
        Write(keys.network(nid), record, new=True),
        *_gateway_writes(view, nid, gateways),
    )
    return Plan(writes, reply=network)


def update(view: View, posted: Network) -> Plan:
    """Change what a network excludes, where that is named, and refuse all else.

    To the original a network is immutable, so even a repeated creation is refused.
    """
    if posted.object_key() not in view.objects[Network.kind]:
        raise NotFound("network not found")
    if not posted.exclude:
        raise Conflict(_IMMUTABLE)
    return change(view, posted)


def change(view: View, posted: Network) -> Plan:
    """Change what a network excludes, also to nothing; nothing else of one can be changed.

    Addresses that are held stay with their holders.
    """
    key = posted.object_key()
    stored = view.objects[Network.kind].get(key)
    if not isinstance(stored, Network):
        raise NotFound("network not found")
    same = all(getattr(posted, name) in {getattr(stored, name), 0, ""} for name in _FIXED)
    record = network_named(view, stored.network_name, stored.tenant_name)
    if not same or posted.exclude == stored.exclude or record is None:
        raise Conflict(_IMMUTABLE)
    exclude = exclusions.of_network(posted.exclude, record)
    changed = stored.model_copy(update={"exclude": posted.exclude})
    writes = (
        Write(keys.obj(Network.kind, key), changed, new=False),
        Write(keys.network(record.id), replace(record, exclude=exclude), new=False),
    )
    return Plan(writes, reply=view.linked(changed))


def delete(view: View, key: str, *, in_swarm: bool = False) -> Plan:
    """Delete a network without groups, services and endpoints, with its reservations.

    Endpoints of an infra network do not prevent its deletion: each host removes its own afterwards.
    In swarm mode no Docker network may map it.
    """
    network = view.objects[Network.kind].get(key)
    if not isinstance(network, Network):
        raise NotFound("network not found")
    tenant = TenantName(network.tenant_name)
    if tenant not in view.objects[Tenant.kind]:
        raise NotFound("Tenant not found")
    if groups := len(view.members(EndpointGroup.kind, Network.kind, key)):
        raise Conflict(f"cannot delete {network.network_name} has {groups} endpoint groups")
    if services := len(view.members(ServiceLB.kind, Network.kind, key)):
        raise Conflict(f"cannot delete {network.network_name} has {services} services ")
    what = f"network {network.network_name}"
    guards = (
        (docker_network.unmapped_guard(view, docker_network.identity_of(network), what),)
        if in_swarm
        else ()
    )
    nid = ids.network_id(NetworkName(network.network_name), tenant)
    if nid in view.network_endpoints and network.nw_type != NetworkType.INFRA:
        raise Conflict("Error: Network has active endpoints")
    deleted = Write(keys.obj(Network.kind, key), None, new=False)
    return Plan((deleted, *_record_deletes(view, nid), *guards), reply=key)


def _check_ready(view: View) -> None:
    settings = view.objects[Global.kind].get("global")
    missing = ""
    if not isinstance(settings, Global):
        missing = "global configuration is not ready"
    elif not settings.fwd_mode:
        missing = "global forwarding mode is not set"
    elif not settings.vlans:
        missing = "global vlan range is not set"
    elif not settings.vxlans:
        missing = "global vxlan range is not set"
    if missing:
        raise Conflict(f"Global configuration is not ready: {missing}")


def _claim(posted: Network) -> Claim:
    try:
        return claims.claim(posted)
    except ValueError as exc:
        raise Invalid(str(exc)) from exc


def _check_overlap(view: View, posted: Network, claim: Claim) -> None:
    """Refuse subnets that overlap networks of the tenant; the text names the first of several."""
    found = view.claims.overlapping(posted.tenant_name, claim)
    if not (found.v4 or found.v6):
        return
    for key in view.members(Network.kind, Tenant.kind, posted.tenant_name):
        name = key.removeprefix(f"{posted.tenant_name}:")
        if key in found.v6:
            raise Conflict(f"network {name} conflicts with subnetv6  {posted.ipv6_subnet}")
        if key in found.v4:
            raise Conflict(f"network {name} conflicts with subnet {posted.subnet}")


def _check_subnets(claim: Claim) -> None:
    if claim.v4 and not claim.v4.valid:
        raise Invalid("Network subnet format not valid")
    if claim.v4 and claim.v4.subnet.length < SHORTEST:
        raise Invalid(f"subnet length {claim.v4.subnet.length} not supported")
    if claim.v6 and not pool6.SHORTEST <= claim.v6.length <= pool6.LONGEST:
        raise Invalid(f"subnet length {claim.v6.length} not supported")
    address_space.check_usable(claim)


def _gateways(posted: Network, claim: Claim) -> Iterator[str]:
    """Yield the canonical addresses of the requested gateways."""
    if posted.gateway:
        if claim.v4 is None:
            raise Invalid(f"gateway {posted.gateway} has no subnet to be in")
        subnet = claim.v4.subnet
        address = in_subnet4(posted.gateway, subnet)
        if address in {subnet.base, subnet.last}:
            raise Invalid(f"gateway {posted.gateway} is not a host address of subnet {subnet}")
        yield ipv4_text(address)
    if posted.ipv6_gateway:
        if claim.v6 is None:
            raise Invalid(f"ipv6Gateway {posted.ipv6_gateway} has no ipv6Subnet to be in")
        yield ipv6_text(in_subnet6(posted.ipv6_gateway, claim.v6))


def _record(posted: Network, claim: Claim, tag: str, segment: Segment) -> NetworkRecord:
    v4, v6 = claim.v4, claim.v6
    return NetworkRecord(
        tenant=TenantName(posted.tenant_name),
        name=NetworkName(posted.network_name),
        type=NetworkType(posted.nw_type),
        encap=Encap(posted.encap),
        pkt_tag=segment.pkt_tag,
        ext_pkt_tag=segment.ext_pkt_tag,
        subnet=ipv4_text(v4.subnet.base) if v4 else "",
        subnet_len=v4.subnet.length if v4 else 0,
        gateway=posted.gateway,
        first=ipv4_text(v4.first) if v4 else "",
        last=ipv4_text(v4.last) if v4 else "",
        bounded=v4.bounded if v4 else False,
        ipv6_subnet=claim.text6,
        ipv6_subnet_len=v6.length if v6 else 0,
        ipv6_gateway=posted.ipv6_gateway,
        network_tag=tag,
        ipv6_first=posted.first_family == "ipv6",
    )


def _by(view: View, holder: NetworkId, tenant: TenantName) -> str:
    """Say which network has a tag, unless it is another tenant's."""
    return f" by network {holder}" if view.networks[holder].tenant == tenant else ""


def _gateway_writes(view: View, nid: NetworkId, gateways: tuple[str, ...]) -> Iterator[Write]:
    left = view.addresses.get(nid)
    for number, address in enumerate(gateways):
        holder = left.grants.get(address) if left else None
        if holder and holder.owner is not GrantOwner.RESERVATION:
            raise not_available(address)
        grant = GrantRecord(
            owner=GrantOwner.GATEWAY, owner_id=nid, seq=view.next_seq + number, granted_at=0.0
        )
        yield Write(keys.grant(nid, address), grant, new=holder is None)


def _record_deletes(view: View, nid: NetworkId) -> Iterator[Write]:
    if nid not in view.networks:
        return
    yield Write(keys.network(nid), None, new=False)
    reserved: list[str] = []
    for address, grant in view.addresses[nid].grants.items():
        if grant.owner is GrantOwner.GATEWAY:
            yield Write(keys.grant(nid, address), None, new=False)
        elif grant.owner in {GrantOwner.RESERVATION, GrantOwner.BLOCK}:
            reserved.append(address)
    for address in reserved[:SWEEP]:
        yield Write(keys.grant(nid, address), None, new=False)
