"""Names and composite ids as types, and the functions that compose them.

The original spells the same pair in two orders: REST keys are `tenant:name`, state ids are
`network.tenant` and `group:tenant` (docs/original/netmaster-state.md §1). The functions here are
the only place that encodes these orders.
"""

from collections.abc import Mapping
from typing import Final, NewType

TenantName = NewType("TenantName", str)
NetworkName = NewType("NetworkName", str)
GroupName = NewType("GroupName", str)
HostLabel = NewType("HostLabel", str)
"""Names a host everywhere (ADR 16); the OS host name is only its default."""

NetworkId = NewType("NetworkId", str)
"""`<network>.<tenant>`, the id of a network record."""

GroupKey = NewType("GroupKey", str)
"""`<group>:<tenant>`, the id of an endpoint group record (reversed versus the REST key)."""

ServiceKey = NewType("ServiceKey", str)
"""`<service>:<tenant>`, the id of a service record (reversed versus the REST key)."""

EndpointKey = NewType("EndpointKey", str)
"""`<network>.<tenant>-<container id>`, the id of an endpoint record."""

DocknetId = NewType("DocknetId", str)
"""`<tenant>.<network>.<group>`, the group empty for the network itself."""

ObjectKey = NewType("ObjectKey", str)
"""`<tenant>:<name>`, the key of a REST object."""

POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_NAME: Final = "io.kubernetes.pod.name"
"""Labels of an endpoint that name its pod."""

OF_MACHINE: Final = "@vm"
"""The end of the name for which addresses of a machine of KubeVirt are kept; no pod's ends so."""

DEFAULT_TENANT = TenantName("default")
DEFAULT_NETWORK = NetworkName("default-net")


def network_id(network: NetworkName, tenant: TenantName) -> NetworkId:
    """Return the record id of a network."""
    return NetworkId(f"{network}.{tenant}")


def split_network_id(nid: NetworkId) -> tuple[NetworkName, TenantName]:
    """Return (network, tenant). Raises ValueError for an id without a dot."""
    # Both names may contain dots, so an id alone is ambiguous. The last dot is right unless the
    # tenant's name has one.
    network, dot, tenant = nid.rpartition(".")
    if not dot:
        raise ValueError(f"network id {nid!r} is not of the form <network>.<tenant>")
    return NetworkName(network), TenantName(tenant)


def network_name(nid: NetworkId, tenant: TenantName) -> NetworkName:
    """Return the name of a tenant's network, by its id."""
    return NetworkName(nid.removesuffix(f".{tenant}"))


def group_key(group: GroupName, tenant: TenantName) -> GroupKey:
    """Return the record id of an endpoint group."""
    return GroupKey(f"{group}:{tenant}")


def service_key(service: str, tenant: TenantName) -> ServiceKey:
    """Return the record id of a service."""
    return ServiceKey(f"{service}:{tenant}")


def object_key(tenant: TenantName, name: str) -> ObjectKey:
    """Return the REST key of an object that belongs to a tenant."""
    return ObjectKey(f"{tenant}:{name}")


def docknet_id(tenant: TenantName, network: NetworkName, group: GroupName | None) -> DocknetId:
    """Return the id of a docker network's record; `group` is None for a whole network."""
    return DocknetId(f"{tenant}.{network}.{group or ''}")


def endpoint_key(nid: NetworkId, container: str) -> EndpointKey:
    """Return the record id of a container's endpoint on a network."""
    return EndpointKey(f"{nid}-{container}")


def endpoint_name(common: str, labels: Mapping[str, str]) -> str:
    """Return what people call an endpoint: `<namespace>/<pod>`, or the common name.

    Docker's common names begin with a slash, which is left out.
    """
    if POD_NAME in labels:
        return f"{labels.get(POD_NAMESPACE, '')}/{labels[POD_NAME]}"
    return common.removeprefix("/")
