"""`EndpointDb` of `/debug/ofnet`: every endpoint with what switches need of it.

Plain data under the original's field names, derived from the view; the hosts' tunnel endpoints are
an argument.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from core.ids import GroupKey, HostLabel
from netmaster.view import View
from state.records import EndpointRecord, NetworkRecord

INTERNAL: Final = 2
"""The original's bit for an endpoint of this cluster: not learned by BGP, not external."""


def endpoint_db(view: View, vteps: Mapping[HostLabel, str]) -> dict[str, dict[str, Any]]:
    """Return all endpoints by `<address>:<tenant>`; `vteps` are the hosts' tunnel endpoints."""
    shown = {}
    for record in view.endpoints.values():
        network = view.networks.get(record.network)
        if network is not None:
            entry = _entry(view, record, network, vteps.get(record.homing_host, ""))
            shown[entry["EndpointID"]] = entry
    return dict(sorted(shown.items()))


def _entry(view: View, record: EndpointRecord, network: NetworkRecord, vtep: str) -> dict[str, Any]:
    group = view.groups.get(GroupKey(record.group_key))
    return {
        "EndpointID": f"{record.ip_address or record.ipv6_address}:{network.tenant}",
        "EndpointType": INTERNAL,
        "EndpointGroup": record.group_id,
        "IpAddr": record.ip_address,
        "IpMask": "255.255.255.255" if record.ip_address else "",
        "Ipv6Addr": record.ipv6_address,
        "Ipv6Mask": ":".join(["ffff"] * 8) if record.ipv6_address else "",
        "Vrf": network.tenant,
        "MacAddrStr": record.mac_address,
        "Vlan": network.pkt_tag,
        "Vni": network.ext_pkt_tag,
        "EndpointGroupVlan": (group or network).pkt_tag,
        "OriginatorIp": vtep,
        "OriginatorMac": "",
        "Timestamp": _granted_at(view, record),
    }


def _granted_at(view: View, record: EndpointRecord) -> str:
    grant = view.addresses[record.network].grants.get(record.ip_address or record.ipv6_address)
    at = datetime.fromtimestamp(grant.granted_at if grant else 0.0, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
