"""Services with a virtual address, and the BGP peering of a host.

Source: docs/original/netmaster-rest.md §2.
"""

from typing import ClassVar

from contivmodel.checks import (
    Address6,
    LongName,
    Name,
    OneAddress4,
    RouterAddress,
    ServiceAddress,
    ShortText,
    Subnet6,
)
from contivmodel.objects import Link, RestObject
from contivmodel.wire import WireModel, field


class ServiceLBLinks(WireModel):
    """The network and tenant of a service."""

    network: Link = field("Network", default_factory=Link)
    tenant: Link = field("Tenant", default_factory=Link)


class ServiceLB(RestObject):
    """A virtual address in a network, served by containers that its label selectors match.

    `ports` are `service:provider:protocol`, `selectors` are `label=value`.
    """

    kind: ClassVar[str] = "serviceLB"
    plural: ClassVar[str] = "serviceLBs"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "service_name")

    ip_address: ServiceAddress = field("ipAddress")
    network_name: Name = field("networkName")
    ports: list[str] = field("ports", default_factory=list)
    selectors: list[str] = field("selectors", default_factory=list)
    service_name: LongName = field("serviceName")
    tenant_name: Name = field("tenantName")
    links: ServiceLBLinks = field("links", default_factory=ServiceLBLinks)


class Bgp(RestObject):
    """The router of a host and its neighbour.

    `routerIpv6` and `neighborIpv6`, which the original does not have, are this host's address of
    IPv6 on its neighbour's network, and that of the neighbour where the session is by IPv6. They
    are not shown unless set; `routerip` may be empty where `routerIpv6` is not.
    """

    kind: ClassVar[str] = "Bgp"
    plural: ClassVar[str] = "Bgps"
    key_fields: ClassVar[tuple[str, ...]] = ("hostname",)

    as_number: ShortText = field("as")
    hostname: LongName = field("hostname")
    neighbor: OneAddress4 = field("neighbor")
    neighbor_as: ShortText = field("neighbor-as")
    neighbor_ipv6: Address6 = field("neighborIpv6")
    router_ip: RouterAddress = field("routerip")
    router_ipv6: Subnet6 = field("routerIpv6")
