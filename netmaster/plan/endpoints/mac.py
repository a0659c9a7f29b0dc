"""The MAC address of an endpoint: derived from its IPv4 address, or one that was asked for (pure).

The original has derived ones alone. One that is asked for must be free in the whole cluster, since
networks may share a VLAN or an uplink.
"""

import re
from typing import Final

from core.addresses import MAC_PREFIX, ipv4, mac_text
from core.errors import Conflict, Invalid
from netmaster.view import View

_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MULTICAST: Final = 0x01
_RESERVED: Final = (f"{MAC_PREFIX}:", "06:02:", "00:00:11:11:11:11", "00:00:00:00:00:00")
"""Derived addresses, those of hosts' BGP interfaces, the router of all networks, no address."""


def choose(view: View, requested: str, address: str) -> str:
    """Return the MAC address of a new endpoint with an IPv4 address.

    Raises Invalid for a request that is no unicast MAC address, Conflict for one that is in use or
    reserved.
    """
    derived = mac_text(ipv4(address))
    mac = requested.lower()
    if mac in {"", derived}:
        return derived
    if not _MAC.fullmatch(mac) or int(mac[:2], 16) & _MULTICAST:
        raise Invalid(f"{requested} is not a unicast MAC address")
    if mac.startswith(_RESERVED):
        raise Conflict(f"MAC address {mac} is reserved: choose one outside of {MAC_PREFIX}:*")
    for endpoint in view.endpoints.values():
        if endpoint.mac_address.lower() == mac:
            # whose it is stays untold: MAC addresses of all tenants are compared
            raise Conflict(f"MAC address {mac} is in use")
    return mac
