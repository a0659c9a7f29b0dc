"""Decisions about services: a name, ports and selectors behind a virtual address.

A service is its REST object, its record and the grant of its address
(docs/original/netmaster-rest.md §2, docs/original/netmaster-state.md §8), written and deleted
together. Its providers are derived. The address is allocated from the service's network outside the
groups' pools: the requested one, else the lowest free one. An update keeps it if possible.
"""

import re
from contextlib import suppress
from typing import Final

from contivmodel.objects import Link, Network, Tenant
from contivmodel.service_objects import ServiceLB, ServiceLBLinks
from core import ids, keys
from core.addresses import canonical
from core.errors import Invalid, NotFound
from core.ids import NetworkId, NetworkName, TenantName
from netmaster.plan.grants import address_source, choose4, choose6, grant_write
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View, network_named
from state.records import GrantOwner, GrantRecord, NetworkRecord, ServiceRecord

_PORT: Final = re.compile(r"(\d{1,5}):(\d{1,5}):(?:TCP|tcp|Tcp|UDP|udp|Udp)", re.ASCII)
_MAX_PORT: Final = 65535


def create(view: View, posted: ServiceLB) -> Plan:
    """Create a service and grant its address."""
    key = posted.object_key()
    if key in view.objects[ServiceLB.kind]:
        return update(view, posted)
    network = _checked(view, posted)
    address = _chosen(view, network, posted.ip_address)
    record = _record(posted, address)
    service = _stored(posted)
    writes = (
        Write(keys.obj(ServiceLB.kind, key), service, new=True),
        Write(keys.service_lb(record.key), record, new=True),
        _grant(view, network, record),
    )
    return Plan(writes, reply=service)


def update(view: View, posted: ServiceLB) -> Plan:
    """Change anything but the name.

    The address stays unless another one is requested, or the service moves to another network.
    """
    key = posted.object_key()
    before = view.objects[ServiceLB.kind].get(key)
    if not isinstance(before, ServiceLB):
        raise NotFound("serviceLB not found")
    network = _checked(view, posted)
    old = _service_record(view, before)
    address, moved = _address(view, network, old, posted.ip_address)
    record = _record(posted, address)
    service = _stored(posted)
    writes: list[Write] = []
    if service != before:
        writes.append(Write(keys.obj(ServiceLB.kind, key), service, new=False))
    if record != old:
        writes.append(Write(keys.service_lb(record.key), record, new=False))
    if moved:
        writes += [*_release(view, old), _grant(view, network, record)]
    return Plan(tuple(writes), reply=service)


def delete(view: View, key: str) -> Plan:
    """Delete a service and release its address."""
    service = view.objects[ServiceLB.kind].get(key)
    if not isinstance(service, ServiceLB):
        raise NotFound("serviceLB not found")
    record = _service_record(view, service)
    writes = (
        Write(keys.obj(ServiceLB.kind, key), None, new=False),
        Write(keys.service_lb(record.key), None, new=False),
        *_release(view, record),
    )
    return Plan(writes, reply=key)


def _checked(view: View, posted: ServiceLB) -> NetworkRecord:
    """Return the service's network; the checks and their order are the original's."""
    if not posted.service_name:
        raise Invalid("Invalid service name")
    if not posted.selectors:
        raise Invalid("Invalid selector options")
    if not posted.ports or not all(map(is_port, posted.ports)):
        raise Invalid("Invalid Port maping . Port format is - Port:TargetPort:Protocol")
    tenant, name = TenantName(posted.tenant_name), NetworkName(posted.network_name)
    if tenant not in view.objects[Tenant.kind]:
        raise NotFound(f"Tenant {tenant} not found" if tenant else "Invalid tenant name")
    network = network_named(view, name, tenant)
    if network is None or ids.object_key(tenant, name) not in view.objects[Network.kind]:
        raise NotFound(f"Network {name} not found")
    for selector in posted.selectors:
        if selector.count("=") != 1:
            raise Invalid(f"Invalid selector {selector}. selector format is key1=value1")
    return network


def is_port(text: str) -> bool:
    """Return whether a text is `port:port:protocol`."""
    found = _PORT.fullmatch(text)
    return found is not None and all(1 <= int(port) <= _MAX_PORT for port in found.groups())


def _address(
    view: View, network: NetworkRecord, old: ServiceRecord, requested: str
) -> tuple[str, bool]:
    """Return the address after an update, and whether it is another one."""
    same_network = _network_id(old) == network.id
    if same_network and (not requested or _is_spelt(requested, old.ip_address)):
        return old.ip_address, False
    return _chosen(view, network, requested), True


def _is_spelt(requested: str, address: str) -> bool:
    """Return whether a text spells an address; one that spells none is refused later."""
    with suppress(ValueError):
        return canonical(requested) == address
    return False


def _chosen(view: View, network: NetworkRecord, requested: str) -> str:
    """Return a free address of a network: of IPv6 if that is asked for, or there is no other."""
    if ":" in requested and not network.ipv6_subnet:
        raise Invalid(f"network {network.id} has no IPv6: {requested} cannot be a service's there")
    choose = choose6 if ":" in requested or not network.subnet else choose4
    return choose(address_source(view, network, None), requested)


def _record(posted: ServiceLB, address: str) -> ServiceRecord:
    pairs = (selector.partition("=") for selector in posted.selectors)
    return ServiceRecord(
        tenant=TenantName(posted.tenant_name),
        name=posted.service_name,
        network=NetworkName(posted.network_name),
        ports=tuple(posted.ports),
        selectors={name: value for name, _, value in pairs},
        ip_address=address,
    )


def _stored(posted: ServiceLB) -> ServiceLB:
    tenant = TenantName(posted.tenant_name)
    network = ids.object_key(tenant, posted.network_name)
    links = ServiceLBLinks(
        network=Link(type=Network.kind, key=network), tenant=Link(type=Tenant.kind, key=tenant)
    )
    return posted.model_copy(update={"key": posted.object_key(), "links": links})


def _service_record(view: View, service: ServiceLB) -> ServiceRecord:
    key = ids.service_key(service.service_name, TenantName(service.tenant_name))
    record = view.services.get(key)
    if record is None:
        raise NotFound("key not found")
    return record


def _grant(view: View, network: NetworkRecord, record: ServiceRecord) -> Write:
    grant = GrantRecord(owner=GrantOwner.VIP, owner_id=record.key, seq=view.next_seq)
    return grant_write(address_source(view, network, None), record.ip_address, grant)


def _release(view: View, record: ServiceRecord) -> list[Write]:
    nid = _network_id(record)
    addresses = view.addresses.get(nid)
    grant = addresses.grants.get(record.ip_address) if addresses else None
    if grant is None or grant.owner is not GrantOwner.VIP or grant.owner_id != record.key:
        return []
    return [Write(keys.grant(nid, record.ip_address), None, new=False)]


def _network_id(record: ServiceRecord) -> NetworkId:
    return ids.network_id(record.network, record.tenant)
