"""Docker's networks: what they must look like, and when swarm mode forbids a deletion.

Pure. In mode docker each data network and each group has a Docker network. From the view and the
writes of a plan come `DockerNetworkOperation`s, each with what `netmaster.external.docker` sends;
`netmaster.external.external_effects` performs them. In swarm mode Docker's networks are created
first (`netmaster.plan.external.swarm_network`), and their records are only read here.

Source: docs/original/netmaster-daemon.md §10.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from contivmodel.objects import EndpointGroup, Network, RestObject
from core import ids, keys
from core.errors import Conflict
from core.ids import GroupName, NetworkId, NetworkName, TenantName
from netmaster.stored import PendingDockerNetwork, Write
from netmaster.view import View
from state import docker_networks
from state.docker_networks import DockerPlace
from state.records import DocknetRecord, NetworkRecord, NetworkType


@dataclass(frozen=True, slots=True)
class DockerNetworkOperation:
    """The operation that syncs Docker with the store for one network.

    `wanted` is the body to create it with; None for a network that is deleted.
    """

    effect: PendingDockerNetwork
    wanted: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """The name in Docker, where networks and groups of a tenant share one namespace."""
        return _place(self.effect).name


def operations(view: View, writes: Sequence[Write]) -> tuple[DockerNetworkOperation, ...]:
    """Return the operations that a plan's writes require.

    Raises Conflict for a network whose record would have the key of another one's.
    """
    records = [write.record for write in writes if isinstance(write.record, NetworkRecord)]
    networks = {**view.networks, **{record.id: record for record in records}}
    return tuple(_operations(view, writes, networks))


def pending(view: View) -> list[PendingDockerNetwork]:
    """Return everything that Docker may hold in another state than the store.

    That is what is stored as pending, and every object without a record and record without an
    object: they are left from changes in another mode, when Docker was not told.
    """
    stored = {
        effect
        for effect in view.pending_effects.values()
        if isinstance(effect, PendingDockerNetwork)
    }
    recorded = {identity_of_record(record) for record in view.docknets.values()}
    differing = recorded ^ set(_wanted(view))
    return sorted(stored | differing, key=lambda identity: identity.id)


def sync_operation(view: View, identity: PendingDockerNetwork) -> DockerNetworkOperation:
    """Return the operation that syncs Docker with the store for one network or group."""
    kind = EndpointGroup.kind if identity.group else Network.kind
    key = ids.object_key(identity.tenant, identity.group or identity.network)
    found = view.objects[kind].get(key)
    if _has_docker_network(found, view) and identity_of(found) == identity:
        return DockerNetworkOperation(
            identity, _body(identity, view.networks[_network_id(identity)])
        )
    return DockerNetworkOperation(identity, None)


def record_writes(view: View, operation: DockerNetworkOperation, uuid: str) -> tuple[Write, ...]:
    """Return the writes of the record after an operation; `uuid` is the id Docker gave."""
    identity = operation.effect
    key, before = keys.docknet(identity.id), view.docknets.get(identity.id)
    if operation.wanted is None:
        return (Write(key, None, new=False),) if before else ()
    record = DocknetRecord(
        tenant=identity.tenant, network=identity.network, group=identity.group, uuid=uuid
    )
    return () if record == before else (Write(key, record, new=before is None),)


def unmapped_guard(view: View, identity: PendingDockerNetwork, what: str) -> Write:
    """Return the write that guards a deletion in swarm mode: no Docker network must map `what`.

    Raises Conflict where one does. The write deletes a record that does not exist, so that the
    transaction fails if an agent creates it meanwhile.
    """
    record = view.docknets.get(identity.id)
    if record is not None:
        raise Conflict(f"cannot delete {what} mapped to docker network {record.uuid}")
    return Write(keys.docknet(identity.id), None, new=True)


def identity_of(obj: Network | EndpointGroup) -> PendingDockerNetwork:
    """Return the identity of an object's Docker network."""
    group = GroupName(obj.group_name) if isinstance(obj, EndpointGroup) else None
    return PendingDockerNetwork(TenantName(obj.tenant_name), NetworkName(obj.network_name), group)


def identity_of_record(record: DocknetRecord) -> PendingDockerNetwork:
    """Return the identity of a recorded Docker network."""
    return PendingDockerNetwork(record.tenant, record.network, record.group)


def _operations(
    view: View, writes: Sequence[Write], networks: Mapping[NetworkId, NetworkRecord]
) -> Iterator[DockerNetworkOperation]:
    for before, after in _changed(view, writes):
        if before is None and _has_docker_network(after, view):
            identity = identity_of(after)
            _check_id(view, identity)
            yield DockerNetworkOperation(identity, _body(identity, networks[_network_id(identity)]))
        elif after is None and isinstance(before, Network | EndpointGroup):
            identity = identity_of(before)
            if _has_docker_network(before, view) or identity.id in view.docknets:
                yield DockerNetworkOperation(identity, None)


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
            if _has_docker_network(obj, view):
                yield identity_of(obj)


def _has_docker_network(obj: RestObject | None, view: View) -> TypeGuard[Network | EndpointGroup]:
    """Return whether an object has a Docker network; on an ACI fabric only groups have one."""
    if isinstance(obj, Network):
        return obj.nw_type != NetworkType.INFRA and not view.is_aci
    return isinstance(obj, EndpointGroup)


def _check_id(view: View, identity: PendingDockerNetwork) -> None:
    # Ids join names by dots, and names may contain dots, so two networks may have one id. The
    # second one would overwrite the record of the first.
    record, effect = view.docknets.get(identity.id), view.pending_effects.get(identity.key)
    holder = identity_of_record(record) if record else effect
    if holder not in (None, identity):
        raise Conflict(f"docker network id {identity.id} is in use by another network")


def _network_id(identity: PendingDockerNetwork) -> NetworkId:
    return ids.network_id(identity.network, identity.tenant)


def _body(identity: PendingDockerNetwork, network: NetworkRecord) -> dict[str, Any]:
    """Return the body that creates a network, without the names of the drivers."""
    return docker_networks.body_of(_place(identity), network)


def _place(identity: PendingDockerNetwork) -> DockerPlace:
    return DockerPlace(identity.tenant, identity.network, identity.group)
