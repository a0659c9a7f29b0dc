"""The MAC address of an endpoint: derived from its address, or one that was asked for (pure).

The original has derived ones alone. One that is asked for must be free in the whole cluster, since
networks may share a VLAN or an uplink.
"""

import re
from typing import Final

from core.addresses import MAC6_PREFIX, MAC_PREFIX, derived_mac, ipv6, ipv6_text, with_mac6_of
from core.errors import Conflict, Invalid
from core.ids import NetworkId
from netmaster.view import View
from state.records import EndpointRecord

_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MULTICAST: Final = 0x01
_RESERVED: Final = (
    f"{MAC_PREFIX}:",
    f"{MAC6_PREFIX}:",
    "06:02:",
    "00:00:11:11:11:11",
    "00:00:00:00:00:00",
)
"""Derived addresses, those of hosts' BGP interfaces, the router of all networks, no address."""


def choose(
    view: View,
    nid: NetworkId,
    requested: str,
    address: str,
    address6: str,
    *,
    asked6: str = "",
    keep: str = "",
    leaving: EndpointRecord | None = None,
) -> str:
    """Return the MAC address of a new endpoint with an IPv4 or an IPv6 address, or both.

    It is `requested`, or derived with "". `asked6` is the IPv6 address that was asked for, if any.
    One that is kept for somebody else than `keep` is in use while that one is away. That of the
    endpoint which is `leaving` is free.

    Raises Invalid for a request that is no unicast MAC address, Conflict for one that is in use or
    reserved.
    """
    derived = derived_mac(address, address6)
    mac = requested.lower()
    if mac in {"", derived}:
        # Of addresses of IPv6 that are given in turn no two have the same one, nor has one of them
        # that of an address that was asked for (`netmaster.ipam.pool6`).
        if (
            asked6
            and not address
            and (_is_on(view, nid, derived, leaving) or _is_granted(view, nid, address6))
        ):
            raise Conflict(f"MAC address {derived}, which goes with {address6}, is in use")
        return derived
    if not _MAC.fullmatch(mac) or int(mac[:2], 16) & _MULTICAST:
        raise Invalid(f"{requested} is not a unicast MAC address")
    if mac.startswith(_RESERVED):
        raise Conflict(
            f"MAC address {mac} is reserved: choose one outside of {MAC_PREFIX}:* and "
            f"{MAC6_PREFIX}:*"
        )
    for endpoint in view.endpoints.values():
        if endpoint.mac_address.lower() == mac and endpoint != leaving:
            # whose it is stays untold: MAC addresses of all tenants are compared
            raise Conflict(f"MAC address {mac} is in use")
    if any(one.mac == mac and one.kept_for != keep for one in view.reservations.values()):
        raise Conflict(f"MAC address {mac} is in use: it is kept for a pod that is away")
    return mac


def _is_granted(view: View, nid: NetworkId, address6: str) -> bool:
    """Tell whether the address in turn that has this one's MAC is held: by a host, say."""
    addresses = view.addresses.get(nid)
    if addresses is None or addresses.v6 is None:
        return False
    twin = with_mac6_of(ipv6(address6), addresses.v6.subnet.base)
    return twin != ipv6(address6) and ipv6_text(twin) in addresses.grants


def _is_on(view: View, nid: NetworkId, mac: str, leaving: EndpointRecord | None) -> bool:
    others = (view.endpoints[key] for key in view.network_endpoints.get(nid, ()))
    return any(one.mac_address == mac and one != leaving for one in others)
