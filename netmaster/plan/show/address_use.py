"""How full the networks are, for `GET /api/v2/ipam`: numbers of addresses by network. Pure."""

from typing import Any, Final

from contivmodel.schema import TEXT, Schema
from core import ids
from core.ids import NetworkId
from netmaster.view import View

_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FIELDS: Final[dict[str, Schema]] = {
    **dict.fromkeys(("key", "tenantName", "networkName", "subnet", "ipv6Subnet"), TEXT),
    "size": {**_COUNT, "description": "IPv4 addresses that the network could ever grant"},
    "free": {**_COUNT, "description": "of these, the ones that are free now"},
    "granted": {**_COUNT, "description": "IPv4 addresses in use, gateways and reservations too"},
    "ipv6Granted": {**_COUNT, "description": "the same of IPv6"},
}


def keys(view: View) -> dict[str, NetworkId]:
    """Return object key -> id of the networks that have a record."""
    return {ids.object_key(net.tenant, net.name): nid for nid, net in view.networks.items()}


def shown(view: View, nid: NetworkId) -> dict[str, Any]:
    """Return the numbers of one network."""
    network, addresses = view.networks[nid], view.addresses[nid]
    ipv6 = sum(":" in address for address in addresses.grants)
    pool = addresses.v4
    return {
        "key": ids.object_key(network.tenant, network.name),
        "tenantName": network.tenant,
        "networkName": network.name,
        "subnet": f"{network.subnet}/{network.subnet_len}",
        "ipv6Subnet": f"{network.ipv6_subnet}/{network.ipv6_subnet_len}"
        if network.ipv6_subnet
        else "",
        "size": pool.size if pool else 0,
        "free": pool.free if pool else 0,
        "granted": len(addresses.grants) - ipv6,
        "ipv6Granted": ipv6,
    }
