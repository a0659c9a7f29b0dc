"""Decisions about the BGP peering of hosts: the REST object and its record, written together.

The forwarding mode is not checked, as in the original; leaving the routing mode is refused while
peerings exist (`netmaster.plan.objects.globals`).
"""

from contivmodel.objects import Global
from contivmodel.service_objects import Bgp
from core import keys
from core.errors import Conflict, Invalid, NotFound
from netmaster.plan.model import Plan
from netmaster.plan.objects.globals import ACI, KEY
from netmaster.stored import Write
from netmaster.view import View
from state.records import BgpRecord


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
    key = posted.object_key()
    peering = posted.model_copy(update={"key": key})
    record = BgpRecord(
        hostname=posted.hostname,
        router_ip=posted.router_ip,
        as_number=posted.as_number,
        neighbor_as=posted.neighbor_as,
        neighbor=posted.neighbor,
    )
    writes = []
    if (before := view.objects[Bgp.kind].get(key)) != peering:
        writes.append(Write(keys.obj(Bgp.kind, key), peering, new=before is None))
    if (known := view.bgps.get(key)) != record:
        writes.append(Write(keys.bgp(key), record, new=known is None))
    return Plan(tuple(writes), reply=peering)
