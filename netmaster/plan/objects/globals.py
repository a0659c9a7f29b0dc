"""Decisions about the global object: ranges of tags, forwarding and ARP mode, fabric.

The object, GlobConfig and gstate.Cfg are kept in sync by writing them together. With gstate.Cfg the
resource records of the original are written, at their creation-time value.

Source: docs/original/netmaster-rest.md §2, docs/original/netmaster-state.md §10.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contivmodel.objects import Global
from core import keys
from core.errors import Conflict, NotFound
from netmaster.ipam.segments import parse_range, parse_vlans, parse_vxlans
from netmaster.plan import address_space
from netmaster.plan.address_space import ROUTING
from netmaster.plan.model import Plan
from netmaster.stored import Stored, Write
from netmaster.view import View
from state import codec
from state.records import DEFAULT_PRIVATE_SUBNET, GlobalRecord, TagRangesRecord

KEY: Final = "global"
DEFAULT_VLANS: Final = "1-4094"
DEFAULT_VXLANS: Final = "1-10000"
DEFAULT_FORWARD_MODE: Final = "bridge"
DEFAULT_ARP_MODE: Final = "proxy"
ACI: Final = "aci"


@dataclass(frozen=True, slots=True)
class StartupFlags:
    """The daemon's flags that concern the global object; "" for a flag that is not set."""

    fwd_mode: str
    infra_type: str


def startup(view: View, flags: StartupFlags) -> Plan:
    """Create the global object if there is none, else apply the flags where that is allowed.

    Stored settings win, except that forward mode and infra type follow the flags while no network
    depends on them (ADR 15).
    """
    stored = view.objects[Global.kind].get(KEY)
    if not isinstance(stored, Global):
        return _store(view, _default(flags))
    if view.networks:
        return _store(view, stored)
    settings = stored.model_copy(
        update={
            "fwd_mode": flags.fwd_mode or stored.fwd_mode,
            "network_infra_type": flags.infra_type or stored.network_infra_type,
        }
    )
    return _store(view, settings)


def create(view: View, posted: Global) -> Plan:
    """Create the global object after it was deleted; its ranges must cover the tags in use."""
    if KEY in view.objects[Global.kind]:
        return update(view, posted)
    _check_ranges(view, posted)
    address_space.check_settings(view, None, posted)
    return _store(view, posted)


def update(view: View, posted: Global) -> Plan:
    """Change settings that nothing depends on; an empty forwarding mode changes nothing."""
    stored = view.objects[Global.kind].get(KEY)
    if not isinstance(stored, Global):
        raise NotFound("global not found")
    settings = (
        posted if posted.fwd_mode else posted.model_copy(update={"fwd_mode": stored.fwd_mode})
    )
    if stored.fwd_mode and settings.fwd_mode != stored.fwd_mode:
        _refuse_in_use(view, "forwarding mode")
        if stored.fwd_mode == ROUTING and view.bgps:
            raise Conflict("please delete existing Bgp configs")
    # Stores of older releases have no private subnet; setting the default changes nothing there.
    private_before = stored.pvt_subnet or DEFAULT_PRIVATE_SUBNET
    if settings.pvt_subnet != private_before:
        _refuse_in_use(view, "private subnet")
    _check_ranges(view, settings)
    address_space.check_settings(view, stored, settings)
    return _store(view, settings)


def delete(view: View, key: str) -> Plan:
    """Delete the global object; networks stay, but none can be created then."""
    if key not in view.objects[Global.kind]:
        raise NotFound("global not found")
    writes = [Write(keys.obj(Global.kind, key), None, new=False)]
    if view.global_record is not None:
        writes.append(Write(keys.GLOBAL_CONFIG, None, new=False))
    if view.tag_ranges is not None:
        writes.append(Write(keys.TAG_RANGES, None, new=False))
    writes += [Write(unread, None, new=False) for unread in view.unread]
    return Plan(tuple(writes), reply=key)


def _default(flags: StartupFlags) -> Global:
    return Global(
        arp_mode=DEFAULT_ARP_MODE,
        fwd_mode=flags.fwd_mode or DEFAULT_FORWARD_MODE,
        name=KEY,
        network_infra_type=flags.infra_type,
        pvt_subnet=DEFAULT_PRIVATE_SUBNET,
        vlans=DEFAULT_VLANS,
        vxlans=DEFAULT_VXLANS,
    )


def _refuse_in_use(view: View, what: str) -> None:
    in_use = ((len(view.segments.vlans), "vlans"), (len(view.segments.vxlans), "vxlans"))
    counts = " and ".join(f"{count} {name}" for count, name in in_use if count)
    if counts:
        raise Conflict(f"Unable to update {what} due to existing {counts}")


def _check_ranges(view: View, settings: Global) -> None:
    """Refuse ranges that do not cover a tag in use, then invalid ones."""
    segments = view.segments
    if not parse_range(settings.vlans).covers(segments.vlans):
        in_use = segments.vlans_text
        raise Conflict(f"cannot update the vlan range due to existing vlans {in_use}")
    if not parse_range(settings.vxlans).covers(segments.vxlans):
        in_use = segments.vxlans_text
        raise Conflict(f"cannot update the vxlan range due to existing vxlans {in_use}")
    parse_vlans(settings.vlans)
    parse_vxlans(settings.vxlans)


def _store(view: View, settings: Global) -> Plan:
    settings = settings.model_copy(update={"key": KEY})
    return Plan(tuple(_writes(view, settings)), reply=settings)


def _writes(view: View, settings: Global) -> Iterator[Write]:
    """Yield the writes that store `settings`, without those that would change nothing."""
    before = view.global_record
    record = GlobalRecord(
        infra_type=settings.network_infra_type or (before.infra_type if before else ""),
        fwd_mode=settings.fwd_mode,
        arp_mode=settings.arp_mode or (before.arp_mode if before else DEFAULT_ARP_MODE),
        pvt_subnet=settings.pvt_subnet,
    )
    ranges = TagRangesRecord(vlans=settings.vlans, vxlans=settings.vxlans)
    stored = view.objects[Global.kind].get(KEY)
    yield from _replace(keys.obj(Global.kind, KEY), stored, settings)
    yield from _replace(keys.GLOBAL_CONFIG, before, record)
    yield from _replace(keys.TAG_RANGES, view.tag_ranges, ranges)
    for key, value in codec.tag_resources(ranges).items():
        yield from _replace(key, view.unread.get(key), value)


def _replace(key: str, before: Stored | None, after: Stored) -> Iterator[Write]:
    if before != after:
        yield Write(key, after, new=before is None)
