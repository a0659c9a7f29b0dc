"""What docker is told of networks and groups, and what it keeps from deletion in swarm mode (§10).

Pure. In mode docker each data network and each group has a network in docker: from the view and the
writes of a plan come `Docknet`s, each with what `netmaster.docker` sends;
`netmaster.external_effects` sees to it that docker and store agree. In swarm mode docker's networks
come first and the agents write the records, which are but looked at here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from contivmodel.objects import EndpointGroup, Network, RestObject
from core import ids, keys
from core.errors import Conflict
from core.ids import DEFAULT_TENANT, GroupName, NetworkId, NetworkName, TenantName
from netmaster.stored import PendingDockerNetwork, Write
from netmaster.view import View
from state.records import DocknetRecord, Encap, NetworkRecord, NetworkType


@dataclass(frozen=True, slots=True)
class Docknet:
    """What docker must do about one network: have it, as `wanted` says, or not have it."""

    doubt: PendingDockerNetwork
    wanted: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """Docker's name of it; networks and groups of a tenant share their names."""
        name = self.doubt.group or self.doubt.network
        return name if self.doubt.tenant == DEFAULT_TENANT else f"{name}/{self.doubt.tenant}"


def errands(view: View, writes: Sequence[Write]) -> tuple[Docknet, ...]:
    """Return what a plan's writes mean for docker.

    Raises Conflict for what would share its record with something else.
    """
    records = [write.record for write in writes if isinstance(write.record, NetworkRecord)]
    networks = {**view.networks, **{record.id: record for record in records}}
    return tuple(_errands(view, writes, networks))


def doubtful(view: View) -> list[PendingDockerNetwork]:
    """Return everything of which docker may hold something else than the store.

    Beside what is noted, that is every object without a record and record without an object: they
    came about while docker was not told.
    """
    doubts = {doubt for doubt in view.doubts.values() if isinstance(doubt, PendingDockerNetwork)}
    recorded = {place_of_record(record) for record in view.docknets.values()}
    differing = recorded ^ set(_wanted(view))
    return sorted(doubts | differing, key=lambda place: place.id)


def wish(view: View, place: PendingDockerNetwork) -> Docknet:
    """Return what makes docker hold of a network or a group what the store says."""
    kind = EndpointGroup.kind if place.group else Network.kind
    found = view.objects[kind].get(ids.object_key(place.tenant, place.group or place.network))
    if _has_docknet(found, view) and place_of(found) == place:
        return Docknet(place, _body(place, view.networks[_network_id(place)]))
    return Docknet(place, None)


def recorded(view: View, docknet: Docknet, uuid: str) -> tuple[Write, ...]:
    """Return the writes that say what docker holds once it has done this: the network `uuid`."""
    place = docknet.doubt
    key, before = keys.docknet(place.id), view.docknets.get(place.id)
    if docknet.wanted is None:
        return (Write(key, None, new=False),) if before else ()
    record = DocknetRecord(tenant=place.tenant, network=place.network, group=place.group, uuid=uuid)
    return () if record == before else (Write(key, record, new=before is None),)


def unmapped(view: View, place: PendingDockerNetwork, what: str) -> Write:
    """Return the write that goes with a deletion in swarm mode: docker shall not have `what`.

    Raises Conflict where it has.
    """
    record = view.docknets.get(place.id)
    if record is not None:
        raise Conflict(f"cannot delete {what} mapped to docker network {record.uuid}")
    return Write(keys.docknet(place.id), None, new=True)


def place_of(obj: Network | EndpointGroup) -> PendingDockerNetwork:
    """Return where an object's network in docker belongs."""
    group = GroupName(obj.group_name) if isinstance(obj, EndpointGroup) else None
    return PendingDockerNetwork(TenantName(obj.tenant_name), NetworkName(obj.network_name), group)


def place_of_record(record: DocknetRecord) -> PendingDockerNetwork:
    """Return where a recorded network belongs."""
    return PendingDockerNetwork(record.tenant, record.network, record.group)


def _errands(
    view: View, writes: Sequence[Write], networks: Mapping[NetworkId, NetworkRecord]
) -> Iterator[Docknet]:
    for before, after in _changed(view, writes):
        if before is None and _has_docknet(after, view):
            place = place_of(after)
            _check_id(view, place)
            yield Docknet(place, _body(place, networks[_network_id(place)]))
        elif after is None and isinstance(before, Network | EndpointGroup):
            place = place_of(before)
            if _has_docknet(before, view) or place.id in view.docknets:
                yield Docknet(place, None)


def _changed(
    view: View, writes: Sequence[Write]
) -> Iterator[tuple[RestObject | None, RestObject | None]]:
    """Yield each object that is written, as it was and as it will be."""
    for write in writes:
        if write.key.startswith(keys.OBJECTS):
            kind, key = keys.parse_obj(write.key)
            after = write.record if isinstance(write.record, RestObject) else None
            yield view.objects[kind].get(key), after


def _wanted(view: View) -> Iterator[PendingDockerNetwork]:
    for kind in (Network.kind, EndpointGroup.kind):
        for obj in view.objects[kind].values():
            if _has_docknet(obj, view):
                yield place_of(obj)


def _has_docknet(obj: RestObject | None, view: View) -> TypeGuard[Network | EndpointGroup]:
    """Say whether docker has a network for an object; on an ACI fabric it has them of groups."""
    if isinstance(obj, Network):
        return obj.nw_type != NetworkType.INFRA and not view.is_aci
    return isinstance(obj, EndpointGroup)


def _check_id(view: View, place: PendingDockerNetwork) -> None:
    record, doubt = view.docknets.get(place.id), view.doubts.get(place.key)
    holder = place_of_record(record) if record else doubt
    if holder not in (None, place):
        raise Conflict(f"docker network id {place.id} is in use by another network")


def _network_id(place: PendingDockerNetwork) -> NetworkId:
    return ids.network_id(place.network, place.tenant)


def _body(place: PendingDockerNetwork, network: NetworkRecord) -> dict[str, Any]:
    """Return what docker is asked for, but for the names of the drivers."""
    tag = network.ext_pkt_tag if network.encap is Encap.VXLAN else network.pkt_tag
    ipam = {"tenant": place.tenant, "network": place.network}
    if place.group:
        ipam["group"] = place.group
    return {
        "CheckDuplicate": True,
        "Attachable": True,
        "EnableIPv6": bool(network.ipv6_subnet),
        "Options": {"tenant": place.tenant, "encap": network.encap, "pkt-tag": str(tag)},
        "IPAM": {
            "Config": list(_subnets(network)),
            "Options": ipam,
        },
    }


def _subnets(network: NetworkRecord) -> Iterator[dict[str, str]]:
    """Yield the whole subnet of each family; of a network that is a range of it, too."""
    yield _subnet(f"{network.subnet}/{network.subnet_len}", network.gateway)
    if network.ipv6_subnet:
        yield _subnet(f"{network.ipv6_subnet}/{network.ipv6_subnet_len}", network.ipv6_gateway)


def _subnet(cidr: str, gateway: str) -> dict[str, str]:
    return {"Subnet": cidr, "Gateway": gateway} if gateway else {"Subnet": cidr}
