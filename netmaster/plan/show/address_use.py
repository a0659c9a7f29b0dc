"""How full the networks are, for `GET /api/v2/ipam`: numbers of addresses by network. Pure."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from contivmodel.answers import Count
from core import ids
from core.ids import NetworkId
from netmaster.view import View


class AddressUse(TypedDict):
    """How full a network is."""

    key: str
    tenantName: str
    networkName: str
    subnet: str
    ipv6Subnet: str
    size: Annotated[Count, Field(description="IPv4 addresses that the network could ever grant")]
    free: Annotated[Count, Field(description="of these, the ones that are free now")]
    granted: Annotated[
        Count, Field(description="IPv4 addresses in use, gateways and reservations too")
    ]
    ipv6Granted: Annotated[Count, Field(description="the same of IPv6")]


def keys(view: View) -> dict[str, NetworkId]:
    """Return object key -> id of the networks that have a record."""
    return {ids.object_key(net.tenant, net.name): nid for nid, net in view.networks.items()}


def shown(view: View, nid: NetworkId) -> AddressUse:
    """Return the numbers of one network."""
    network, addresses = view.networks[nid], view.addresses[nid]
    ipv6 = sum(":" in address for address in addresses.grants)
    pool = addresses.v4
    return {
        "key": ids.object_key(network.tenant, network.name),
        "tenantName": network.tenant,
        "networkName": network.name,
        "subnet": str(network.v4 or ""),
        "ipv6Subnet": f"{network.ipv6_subnet}/{network.ipv6_subnet_len}"
        if network.ipv6_subnet
        else "",
        "size": pool.size if pool else 0,
        "free": pool.free if pool else 0,
        "granted": len(addresses.grants) - ipv6,
        "ipv6Granted": ipv6,
    }
