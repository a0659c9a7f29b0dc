"""Bodies of netmaster's `/plugin/*` routes (docs/original/netmaster-daemon.md §7).

Wire names are Go field names; input names are case-insensitive, as in Go's decoder.
"""

from typing import ClassVar

from contivmodel.checks import CallText, HostName
from contivmodel.wire import WireModel, field


class ConfigEP(WireModel):
    """The endpoint that an agent requests; `mac_address` is not the original's."""

    go_package: ClassVar[str] = "intent"

    container: CallText = field("Container")
    host: HostName = field("Host")
    ip_address: CallText = field("IPAddress")
    ipv6_address: CallText = field("IPv6Address")
    mac_address: CallText = field("MacAddress")
    service_name: CallText = field("ServiceName")


class CreateEndpointRequest(WireModel):
    """POST /plugin/createEndpoint; `config` names container, host and group.

    `claim`, which the original does not have, is "true" if a pod runs with the addresses asked for.
    Nor does the original have `labels`, those of a new endpoint, nor `block`, the token by which
    its host holds the addresses (`AddressBlocksRequest`), nor `keep`, the pod or machine that they
    are kept for. Nor has it live migrations: `awaits_machine` is "true" for the pod that a machine
    migrates to, `replaces` is the endpoint id of the pod that the machine has left.
    """

    go_package: ClassVar[str] = "master"

    tenant_name: CallText = field("TenantName")
    network_name: CallText = field("NetworkName")
    service_name: CallText = field("ServiceName")
    endpoint_id: CallText = field("EndpointID")
    common_name: CallText = field("EPCommonName")
    config: ConfigEP = field("ConfigEP", default_factory=ConfigEP)
    claim: str = field("Claim")
    labels: dict[str, str] = field("Labels", default_factory=dict)
    block: CallText = field("Block")
    keep: CallText = field("Keep")
    awaits_machine: str = field("AwaitsMachine")
    replaces: CallText = field("Replaces")


class DeleteEndpointRequest(WireModel):
    """POST /plugin/deleteEndpoint; tenant, network and endpoint id are used."""

    go_package: ClassVar[str] = "master"

    tenant_name: CallText = field("TenantName")
    network_name: CallText = field("NetworkName")
    service_name: CallText = field("ServiceName")
    endpoint_id: CallText = field("EndpointID")
    ipv4_address: CallText = field("IPv4Address")


class UpdateEndpointRequest(WireModel):
    """POST /plugin/updateEndpoint: a container started or died.

    `network` may be a group's name; on `die` the container id alone is used.
    """

    go_package: ClassVar[str] = "master"

    ip_address: CallText = field("IPAddress")
    container_id: CallText = field("ContainerID")
    labels: dict[str, str] = field("Labels", default_factory=dict)
    tenant: CallText = field("Tenant")
    network: CallText = field("Network")
    event: CallText = field("Event")
    endpoint_id: CallText = field("EndpointID")
    common_name: CallText = field("EPCommonName")


class AllocAddressRequest(WireModel):
    """POST /plugin/allocAddress; the network by its id or its pool `ip/len[:tenant]`.

    `range`, which the original does not have, is the part of the subnet (`ip/len`) that an address
    is to be of.
    """

    go_package: ClassVar[str] = "master"
    go_name: ClassVar[str] = "AddressAllocRequest"

    network_id: CallText = field("NetworkID")
    address_pool: CallText = field("AddressPool")
    preferred: CallText = field("PreferredIPv4Address")
    range: CallText = field("Range")


class ReleaseAddressRequest(WireModel):
    """POST /plugin/releaseAddress.

    `address_pool`, which the original does not have, names the network of an address that was
    allocated by a pool alone.
    """

    go_package: ClassVar[str] = "master"
    go_name: ClassVar[str] = "AddressReleaseRequest"

    network_id: CallText = field("NetworkID")
    ipv4_address: CallText = field("IPv4Address")
    address_pool: CallText = field("AddressPool")


class AllocNetworkRequest(WireModel):
    """POST /plugin/allocNetwork, which the original does not have: a network of docker's swarm.

    It stands for the network, and the group if one is named, or for a network of its own, which is
    created with the subnets given.
    """

    go_package: ClassVar[str] = "master"

    docker_id: CallText = field("NetworkID")
    tenant_name: CallText = field("TenantName")
    network_name: CallText = field("NetworkName")
    service_name: CallText = field("ServiceName")
    encap: CallText = field("Encap")
    subnet: CallText = field("Subnet")
    gateway: CallText = field("Gateway")
    ipv6_subnet: CallText = field("IPv6Subnet")
    ipv6_gateway: CallText = field("IPv6Gateway")


class FreeNetworkRequest(WireModel):
    """POST /plugin/freeNetwork, which the original does not have: a network of docker's is gone."""

    go_package: ClassVar[str] = "master"

    docker_id: CallText = field("NetworkID")


class AddressBlocksRequest(WireModel):
    """POST /plugin/addressBlocks, which the original does not have (ADR 29).

    `lease` and `number` are those of the last answer that the host knows, "" and 0 of none. `held`
    are all addresses that it counts on, each as `<network id>/<address>`; `wanted` is how many
    more it wants, in decimal digits, by network id.
    """

    go_package: ClassVar[str] = "master"

    host: HostName = field("Host")
    lease: CallText = field("Lease")
    number: int = field("Number", default=0)
    held: list[str] = field("Held", default_factory=list)
    wanted: dict[str, str] = field("Wanted", default_factory=dict)
