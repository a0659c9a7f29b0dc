"""Networks of docker's swarm: what each stands for, decided when a manager allocates it.

Pure. In swarm mode docker's network comes first. It stands for a network or a group that exists, or
for one that is created for it, in the tenant `default` and by docker's id; the mapping is written
together with that network, so there is nothing to undo. While it is mapped a network cannot be
deleted by users (`netmaster.plan.docker_network.unmapped_guard`).

Source: docs/original/docker-plugin.md §5.
"""

from contivmodel.checks import validate
from contivmodel.objects import Network
from contivmodel.rpc import AllocNetworkRequest, FreeNetworkRequest
from core import ids, keys
from core.addresses import Subnet, parse_range
from core.errors import Conflict, Invalid, NotFound
from core.ids import DEFAULT_TENANT, GroupName, NetworkName, TenantName
from netmaster.plan.model import Plan
from netmaster.plan.objects import network
from netmaster.stored import Write
from netmaster.view import View, network_named, network_of
from state.docker_networks import DockerPlace
from state.records import DocknetRecord, Encap

CHOOSE = "name the network by -o network=... and --ipam-opt network=... to use it"


def allocate(view: View, request: AllocNetworkRequest) -> Plan:
    """Record what a network stands for; the reply is its place.

    A repeated request is answered with the first one's place. Raises Invalid, NotFound, Conflict.
    """
    if not request.docker_id:
        raise Invalid("the network of docker has no id (NetworkID)")
    known = _recorded(view, request.docker_id)
    if known:
        # A manager that begins to lead allocates again what its predecessor has allocated.
        return Plan((), reply=_place(known[0]))
    if request.network_name:
        place = _named(view, request)
        return Plan((_mapping(view, place, request.docker_id),), reply=place)
    wanted = _wanted(request)
    try:
        plan = network.create(view, wanted)
    except Conflict as exc:
        raise Conflict(f"{exc}: {CHOOSE}") from exc
    place = DockerPlace(TenantName(wanted.tenant_name), NetworkName(wanted.network_name))
    return Plan((*plan.writes, _mapping(view, place, request.docker_id)), reply=place)


def free(view: View, request: FreeNetworkRequest) -> Plan:
    """Forget a network, and delete the one that was created for it; nothing to do is a success.

    Raises Conflict while the created network has endpoints.
    """
    records = _recorded(view, request.docker_id)
    mapped = tuple(Write(keys.docknet(record.id), None, new=False) for record in records)
    created = any(record.network == request.docker_id for record in records)
    key = ids.object_key(DEFAULT_TENANT, request.docker_id)
    if not created or key not in view.objects[Network.kind]:
        return Plan(mapped, reply="success")
    return Plan((*network.delete(view, key).writes, *mapped), reply="success")


def _recorded(view: View, docker_id: str) -> list[DocknetRecord]:
    return [record for record in view.docknets.values() if record.uuid == docker_id]


def _place(record: DocknetRecord) -> DockerPlace:
    return DockerPlace(record.tenant, record.network, record.group)


def _mapping(view: View, place: DockerPlace, docker_id: str) -> Write:
    record = DocknetRecord(
        tenant=place.tenant, network=place.network, group=place.group, uuid=docker_id
    )
    # One that is there is of a network that docker has forgotten, or of another one by options.
    return Write(keys.docknet(record.id), record, new=record.id not in view.docknets)


def _named(view: View, request: AllocNetworkRequest) -> DockerPlace:
    tenant = TenantName(request.tenant_name or DEFAULT_TENANT)
    found = network_named(view, request.network_name, tenant)
    if found is None:
        raise NotFound(f"network {request.network_name} of tenant {tenant} not found")
    nid = found.id
    if request.subnet and not found.subnet:
        raise Invalid(f"network {nid} has no IPv4 subnet, and cannot have {request.subnet}")
    own = f"{found.subnet}/{found.subnet_len}"
    if request.subnet and _base(request.subnet) != _base(own):
        raise Invalid(f"network {nid} has subnet {own}, not {request.subnet}")
    place = DockerPlace(tenant, found.name, GroupName(request.service_name) or None)
    if place.group:
        group = view.groups.get(ids.group_key(place.group, tenant))
        if group is None or network_of(group) != nid:
            raise NotFound(f"group {place.group} of network {nid} not found")
    return place


def _base(subnet: str) -> Subnet:
    try:
        return parse_range(subnet).subnet
    except ValueError as exc:
        raise Invalid(f"{subnet} is not a subnet") from exc


def _wanted(request: AllocNetworkRequest) -> Network:
    if not request.subnet:
        raise Invalid("a network of a swarm needs an IPv4 subnet: name one with --subnet")
    return validate(
        Network(
            key=ids.object_key(DEFAULT_TENANT, request.docker_id),
            tenant_name=DEFAULT_TENANT,
            network_name=request.docker_id,
            encap=request.encap or Encap.VXLAN,
            subnet=request.subnet,
            gateway=request.gateway,
            ipv6_subnet=request.ipv6_subnet,
            ipv6_gateway=request.ipv6_gateway,
        )
    )
