"""What tests of announcements share."""

from dataclasses import replace

from ofnet.changes import Changes, ObjectKind
from ofnet.world import FwdMode, LocalEndpoint, Uplink, World
from tests.unit.ofnet.worlds import local, world

UPLINKS = (Uplink(ofport=30, mac="52:54:00:00:00:0a"), Uplink(ofport=31, mac="52:54:00:00:00:0b"))


EMPTY = replace(world(), fwd_mode=FwdMode.BRIDGE, uplinks=UPLINKS[:1])


GROUP_VLAN = 700


def grouped(number: int, group: int = 5) -> LocalEndpoint:
    return replace(local(number), group_id=group, group_vlan=GROUP_VLAN)


def holding(*endpoints: LocalEndpoint) -> World:
    return replace(EMPTY, local={endpoint.key: endpoint for endpoint in endpoints})


def of(*endpoints: LocalEndpoint) -> Changes:
    return Changes.of(ObjectKind.LOCAL, {endpoint.key for endpoint in endpoints})
