"""Decisions about the BGP peering of hosts: the REST object and its record, written together.

The forwarding mode is not checked, as in the original; leaving the routing mode is refused while
peerings exist (`netmaster.plan.objects.globals`). Whether the addresses of IPv4 make a session is
for the agent to say, as in the original; those of IPv6 are checked here.
"""

from ipaddress import IPv6Address, IPv6Interface

from contivmodel.objects import Global
from contivmodel.service_objects import Bgp
from core import keys
from core.errors import Conflict, Invalid, NotFound
from netmaster.plan.model import Plan
from netmaster.plan.objects.globals import ACI, KEY
from netmaster.stored import Write
from netmaster.view import View
from state.records import BgpRecord
from state.underlay import usable


def create(view: View, posted: Bgp) -> Plan:
    """Create the peering of a host."""
    if not posted.hostname:
        raise Invalid("Invalid host name")
    settings = view.objects[Global.kind].get(KEY)
    if isinstance(settings, Global) and settings.network_infra_type == ACI:
        raise Conflict("not supported in ACI fabric mode")
    return _store(view, posted)


def update(view: View, posted: Bgp) -> Plan:
    """Replace the peering of a host."""
    if posted.object_key() not in view.objects[Bgp.kind]:
        raise NotFound("Bgp not found")
    return _store(view, posted)


def delete(view: View, key: str) -> Plan:
    """Delete the peering of a host."""
    if key not in view.objects[Bgp.kind]:
        raise NotFound("Bgp not found")
    writes = [Write(keys.obj(Bgp.kind, key), None, new=False)]
    if key in view.bgps:
        writes.append(Write(keys.bgp(key), None, new=False))
    return Plan(tuple(writes), reply=key)


def _store(view: View, posted: Bgp) -> Plan:
    _check_ipv6(posted)
    key = posted.object_key()
    peering = posted.model_copy(update={"key": key})
    record = BgpRecord(
        hostname=posted.hostname,
        router_ip=posted.router_ip,
        as_number=posted.as_number,
        neighbor_as=posted.neighbor_as,
        neighbor=posted.neighbor,
        router_ipv6=posted.router_ipv6,
        neighbor_ipv6=posted.neighbor_ipv6,
    )
    writes = []
    if (before := view.objects[Bgp.kind].get(key)) != peering:
        writes.append(Write(keys.obj(Bgp.kind, key), peering, new=before is None))
    if (known := view.bgps.get(key)) != record:
        writes.append(Write(keys.bgp(key), record, new=known is None))
    return Plan(tuple(writes), reply=peering)


def _check_ipv6(posted: Bgp) -> None:
    """Raise Invalid for addresses of IPv6 by which no session is possible."""
    if posted.router_ipv6:
        _check_router6(_router6(posted), posted)
    elif posted.neighbor_ipv6:
        raise Invalid("neighborIpv6 needs routerIpv6, the address of this host on its network")


def _check_router6(router: IPv6Interface, posted: Bgp) -> None:
    if usable(str(router.ip)) != router.ip:
        raise Invalid(f"routerIpv6 {posted.router_ipv6} is no address that a router could reach")
    if posted.neighbor_ipv6:
        if posted.neighbor:
            raise Invalid("a host has one session: give neighbor or neighborIpv6, not both")
        neighbor = _address6(posted)
        if neighbor not in router.network or neighbor == router.ip:
            raise Invalid(f"neighborIpv6 {neighbor} is no other address of {router.network}")
    elif not posted.router_ip:
        raise Invalid("a session by IPv4 needs routerip; one by IPv6 needs neighborIpv6")


def _router6(posted: Bgp) -> IPv6Interface:
    try:
        return IPv6Interface(posted.router_ipv6)
    except ValueError as exc:
        raise Invalid("routerIpv6 string invalid format") from exc


def _address6(posted: Bgp) -> IPv6Address:
    try:
        return IPv6Address(posted.neighbor_ipv6)
    except ValueError as exc:
        raise Invalid("neighborIpv6 string invalid format") from exc
