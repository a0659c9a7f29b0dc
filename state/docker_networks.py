"""What the docker network of a network or of a group looks like (pure).

In comes the record of the network; out go the name and the body with which netmaster
(`netmaster.plan.docker_network`) and agents (`netplugin.libnetwork.docknets`) create it. Names of
drivers are the caller's.

Source: docs/original/docker-plugin.md §4.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.errors import Invalid
from core.ids import DEFAULT_TENANT, GroupName, NetworkName, TenantName
from state.records import Encap, NetworkRecord

TENANT: Final = "tenant"
NETWORK: Final = "network"
GROUP: Final = "group"
"""Names of the options that say which of our networks a docker network is."""
MARK: Final = "pkt-tag"
"""The option that only networks made by us have; those of users stay as they are."""


@dataclass(frozen=True, slots=True, order=True)
class DockerPlace:
    """The network, and the group if there is one, that a docker network stands for."""

    tenant: TenantName
    network: NetworkName
    group: GroupName | None = None

    @property
    def name(self) -> str:
        """The name in docker, where networks and groups of a tenant share one namespace."""
        name = self.group or self.network
        return name if self.tenant == DEFAULT_TENANT else f"{name}/{self.tenant}"


def of_options(options: Mapping[str, str]) -> DockerPlace | None:
    """Return the place that options name, None where they name no network."""
    network = options.get(NETWORK)
    if not network:
        return None
    group = options.get(GROUP)
    return DockerPlace(
        TenantName(options.get(TENANT) or DEFAULT_TENANT),
        NetworkName(network),
        GroupName(group) if group else None,
    )


def of_name(name: str) -> tuple[str, TenantName]:
    """Return the name of a network or group, and its tenant. Raises Invalid."""
    own, slash, tenant = name.partition("/")
    if not own or "/" in tenant or (slash and not tenant):
        raise Invalid(f"invalid format of docker network name {name}: expected name[/tenant]")
    return own, TenantName(tenant or DEFAULT_TENANT)


def body_of(place: DockerPlace, network: NetworkRecord) -> dict[str, Any]:
    """Return the body that creates a network, without the names of the drivers."""
    tag = network.ext_pkt_tag if network.encap is Encap.VXLAN else network.pkt_tag
    ipam: dict[str, str] = {TENANT: place.tenant, NETWORK: place.network}
    if place.group:
        ipam[GROUP] = place.group
    # engines have IPv4 unless told otherwise, which those before 28 do not understand
    without_ipv4 = {} if network.subnet else {"EnableIPv4": False}
    return {
        "CheckDuplicate": True,
        "Attachable": True,
        **without_ipv4,
        "EnableIPv6": bool(network.ipv6_subnet),
        "Options": {TENANT: place.tenant, "encap": network.encap, MARK: str(tag)},
        "IPAM": {"Config": list(_subnets(network)), "Options": ipam},
    }


def _subnets(network: NetworkRecord) -> Iterator[dict[str, str]]:
    """Yield the whole subnet of each family, also of a network that uses only a range of it."""
    if network.subnet:
        yield _subnet(f"{network.subnet}/{network.subnet_len}", network.gateway)
    if network.ipv6_subnet:
        yield _subnet(f"{network.ipv6_subnet}/{network.ipv6_subnet_len}", network.ipv6_gateway)


def _subnet(cidr: str, gateway: str) -> dict[str, str]:
    return {"Subnet": cidr, "Gateway": gateway} if gateway else {"Subnet": cidr}
