"""Which local endpoints are announced by gratuitous ARP, and when.

Switches outside learn from an announcement on which port an address is: of the vlan bridge, in
bridge mode; elsewhere nothing is announced. In come Worlds with what changed; out go frames for one
card of the uplink that works. A new endpoint is announced once, on its network's VLAN; the
endpoints of a group, on the group's own VLAN, in `ROUNDS` rounds after one of them came and after
its application profile was launched; all of them when there is an uplink again and when ARP begins
to be flooded.

Pure: `ofnet.garp_sender` has the clock.

Source: docs/original/ofnet-pipelines.md, GARP.
"""

from collections.abc import Iterator
from typing import Final

from core.ids import EndpointKey
from ofnet.changes import Changes, ObjectKind
from ofnet.openflow import packets
from ofnet.openflow.actions import Output, tag
from ofnet.packetin import PacketOut
from ofnet.tables import Mode, mode_of
from ofnet.uplink_choice import way_out
from ofnet.world import ArpMode, Bridge, LocalEndpoint, World

ROUNDS: Final = 15


class Announcements:
    """What is still to be announced on one bridge."""

    def __init__(self, bridge: Bridge, world: World) -> None:
        self._bridge = bridge
        self._world = world
        self._once: set[EndpointKey] = set()
        self._rounds: dict[int, int] = {}

    def update(self, world: World, changes: Changes) -> None:
        """Take over a changed World."""
        before, self._world = self._world, world
        if mode_of(self._bridge, world.fwd_mode) is not Mode.VLAN:
            self._once.clear()
            self._rounds.clear()
        elif _heard_anew(before, world):
            self._add(set(world.local))
        else:
            changed = map(EndpointKey, changes.names(ObjectKind.LOCAL))
            names = world.local.keys() if changes.everything else changed
            self._add({key for key in names if _moved(before, world, key)})
            for group, number in world.launches.items():
                if before.launches.get(group, 0) != number:
                    self._rounds[group] = ROUNDS

    @property
    def rounds_left(self) -> bool:
        """True while groups are to be announced again."""
        return bool(self._rounds)

    def once(self) -> list[PacketOut]:
        """Return the announcements of what came, and count them as made."""
        keys, self._once = self._once, set()
        return list(self._frames(keys))

    def next_round(self) -> list[PacketOut]:
        """Return one round of what groups have still to be announced, and count it as made."""
        groups = self._rounds
        self._rounds = {group: left - 1 for group, left in groups.items() if left > 1}
        members = (one for one in self._world.local.values() if one.group_id in groups)
        sent = (self._announce(one, one.group_vlan) for one in members if one.group_vlan)
        return [frame for frame in sent if frame is not None]

    def _add(self, keys: set[EndpointKey]) -> None:
        self._once |= keys
        for key in keys:
            endpoint = self._world.local[key]
            if endpoint.group_vlan:
                self._rounds[endpoint.group_id] = ROUNDS

    def _frames(self, keys: set[EndpointKey]) -> Iterator[PacketOut]:
        for key in sorted(keys & self._world.local.keys()):
            endpoint = self._world.local[key]
            network = self._world.networks.get(endpoint.network)
            frame = self._announce(endpoint, network.vlan) if network is not None else None
            if frame is not None:
                yield frame

    def _announce(self, endpoint: LocalEndpoint, vlan: int) -> PacketOut | None:
        """Return the announcement of an endpoint, None if there is nowhere to send it."""
        uplink = way_out(self._world.uplinks, endpoint.mac)
        if uplink is None:
            return None
        frame = packets.arp_announcement(endpoint.mac, endpoint.ip)
        return PacketOut(data=frame, actions=(*tag(vlan), Output(uplink.ofport)))


def _heard_anew(before: World, after: World) -> bool:
    """Tell whether others can hear announcements, or need them, that did not before."""
    connected = any(uplink.up for uplink in after.uplinks)
    was_connected = any(uplink.up for uplink in before.uplinks)
    floods = after.arp_mode is ArpMode.FLOOD and before.arp_mode is not ArpMode.FLOOD
    return floods or (connected and not was_connected)


def _moved(before: World, after: World, key: EndpointKey) -> bool:
    """Tell whether an endpoint is here now that was not, or was another to those outside."""
    return key in after.local and _seen(before, key) != _seen(after, key)


def _seen(world: World, key: EndpointKey) -> tuple[object, ...] | None:
    endpoint = world.local.get(key)
    if endpoint is None:
        return None
    network = world.networks.get(endpoint.network)
    vlan = network.vlan if network is not None else 0
    return endpoint.mac, endpoint.ip, endpoint.group_id, endpoint.group_vlan, vlan
