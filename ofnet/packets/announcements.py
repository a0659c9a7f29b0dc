"""Which local endpoints are announced by gratuitous ARP (GARP), and when.

Physical switches learn from an announcement at which port an address is. Only the vlan bridge in
bridge mode announces. In come Worlds with what changed; out go frames for one working NIC of the
uplink. An endpoint with IPv6 alone is announced by an unsolicited neighbour advertisement.

* A new endpoint is announced on its network's VLAN, when its flows are there and again when its
  port is, and then `REPEATS` times. This host's switch learns its port as well: the announcement
  leaves by the uplink, and does not pass the switch's own MAC table.
* The endpoints of a group are announced on the group's own VLAN, in `ROUNDS` rounds: after one of
  them came, and after the group's application profile was launched.
* All endpoints are announced when an uplink works again and when ARP begins to be flooded.

Pure: `ofnet.packets.garp_sender` has the clock.

Source: docs/original/ofnet-pipelines.md §8.
"""

from collections.abc import Iterable, Iterator, Set
from ipaddress import IPv4Address
from typing import Final, NamedTuple

from core.ids import EndpointKey
from ofnet.changes import Changes, ObjectKind
from ofnet.openflow import packets
from ofnet.openflow.actions import PORT_NORMAL, Output, tag
from ofnet.packets.packetin import PacketOut
from ofnet.packets.uplink_choice import choose_uplink
from ofnet.tables import Mode, mode_of
from ofnet.world import ArpMode, Bridge, LocalEndpoint, World

ROUNDS: Final = 15
REPEATS: Final = 4
_NO_ADDRESS: Final = IPv4Address(0)


class NewEndpoints(NamedTuple):
    """What is sent for endpoints that are new on this host."""

    learned: list[PacketOut]
    """Frames from which this host's switch learns their ports."""
    announced: list[PacketOut]
    """Their announcements on the physical network."""


class Announcements:
    """The announcements of one bridge that are not sent yet."""

    # An endpoint is announced when physical switches may have learned its address elsewhere: it is
    # new here, or its MAC, address, group or VLAN changed (`_visible_identity`), or all their
    # learned addresses may be gone with the link. A record that changed otherwise is not announced:
    # every broadcast reaches all hosts of the VLAN. One working NIC of several is enough, so only
    # the first one that comes up announces all endpoints.
    #
    # A pod may have an address that another host's pod had a moment ago. The switch learned its MAC
    # at the uplink then, and would drop what comes for the pod from there (NORMAL sends nothing
    # back) for five minutes, or until the pod sends a frame of its own.
    #
    # One announcement is not enough for the switch of the other pod's host: from packets that its
    # cache has forwarded it learns when it counts them, each half second. What the other pod sent
    # last is learned after the announcement then, and a pod that only answers stays unreachable.

    def __init__(self, bridge: Bridge, world: World) -> None:
        self._bridge = bridge
        self._world = world
        self._new: set[EndpointKey] = set()
        self._again: dict[EndpointKey, int] = {}
        self._rounds: dict[int, int] = {}

    def update(self, world: World, changes: Changes) -> None:
        """Take over a changed World."""
        before, self._world = self._world, world
        if mode_of(self._bridge, world.fwd_mode) is not Mode.VLAN:
            self._new.clear()
            self._again.clear()
            self._rounds.clear()
        elif _must_announce_all(before, world):
            self._add(set(world.local))
        else:
            changed = map(EndpointKey, changes.names(ObjectKind.LOCAL))
            names = world.local.keys() if changes.everything else changed
            self._add({key for key in names if _is_new(before, world, key)})
            for group, number in world.launches.items():
                if before.launches.get(group, 0) != number:
                    self._rounds[group] = ROUNDS

    @property
    def repeats_left(self) -> bool:
        """True while endpoints are to be announced again."""
        return bool(self._again)

    @property
    def rounds_left(self) -> bool:
        """True while groups are to be announced again."""
        return bool(self._rounds)

    def repeat(self, key: EndpointKey) -> bool:
        """Have a local endpoint announced as a new one again; return whether it is announced."""
        mode = mode_of(self._bridge, self._world.fwd_mode)
        if mode is not Mode.VLAN or key not in self._world.local:
            return False
        self._new.add(key)
        return True

    def take_new(self) -> NewEndpoints:
        """Return what is to be sent for new endpoints; it is not due any more."""
        keys, self._new = self._new, set()
        self._again |= dict.fromkeys(keys, REPEATS)
        return self._of(keys)

    def take_repeat(self) -> NewEndpoints:
        """Return what is sent for them again; they have one repeat less to go."""
        keys = self._again.keys() - self._new  # those are about to be announced
        self._again = {key: left - (key in keys) for key, left in self._again.items()}
        self._again = {key: left for key, left in self._again.items() if left}
        return self._of(keys)

    def take_round(self) -> list[PacketOut]:
        """Return the next round of announcements of groups; they have one round less to go."""
        groups = self._rounds
        self._rounds = {group: left - 1 for group, left in groups.items() if left > 1}
        members = (one for one in self._world.local.values() if one.group_id in groups)
        sent = (self._announce(one, one.group_vlan) for one in members if one.group_vlan)
        return [frame for frame in sent if frame is not None]

    def _of(self, keys: Set[EndpointKey]) -> NewEndpoints:
        endpoints = [self._world.local[key] for key in sorted(keys & self._world.local.keys())]
        return NewEndpoints([_learned(one) for one in endpoints], list(self._frames(endpoints)))

    def _add(self, keys: set[EndpointKey]) -> None:
        self._new |= keys
        for key in keys:
            endpoint = self._world.local[key]
            if endpoint.group_vlan:
                self._rounds[endpoint.group_id] = ROUNDS

    def _frames(self, endpoints: Iterable[LocalEndpoint]) -> Iterator[PacketOut]:
        for endpoint in endpoints:
            network = self._world.networks.get(endpoint.network)
            frame = self._announce(endpoint, network.vlan) if network is not None else None
            if frame is not None:
                yield frame

    def _announce(self, endpoint: LocalEndpoint, vlan: int) -> PacketOut | None:
        """Return the announcement of an endpoint; None without a working uplink."""
        uplink = choose_uplink(self._world.uplinks, endpoint.mac)
        if uplink is None:
            return None
        frame = _announcement(endpoint)
        if frame is None:
            return None
        return PacketOut(data=frame, actions=(*tag(vlan), Output(uplink.ofport)))


def _announcement(endpoint: LocalEndpoint) -> bytes | None:
    """Return the frame that tells neighbours where an endpoint is; None without an address."""
    if endpoint.ip is not None:
        return packets.arp_announcement(endpoint.mac, endpoint.ip)
    return None if endpoint.ip6 is None else packets.unsolicited(endpoint.mac, endpoint.ip6)


def _learned(endpoint: LocalEndpoint) -> PacketOut:
    """Return a frame from an endpoint's port to its own MAC.

    Open vSwitch learns from a packet-out after it has forwarded it: the first one goes to the port
    where the MAC was before, if to any.
    """
    frame = packets.arp_to_itself(endpoint.mac, endpoint.ip or _NO_ADDRESS)
    return PacketOut(data=frame, actions=(Output(PORT_NORMAL),), in_port=endpoint.ofport)


def _must_announce_all(before: World, after: World) -> bool:
    """Return whether announcements reach the physical network, or are needed, since this change."""
    connected = any(uplink.up for uplink in after.uplinks)
    was_connected = any(uplink.up for uplink in before.uplinks)
    floods = after.arp_mode is ArpMode.FLOOD and before.arp_mode is not ArpMode.FLOOD
    return floods or (connected and not was_connected)


def _is_new(before: World, after: World, key: EndpointKey) -> bool:
    """Return whether an endpoint is new here, or has changed what the physical network sees."""
    return key in after.local and _visible_identity(before, key) != _visible_identity(after, key)


def _visible_identity(world: World, key: EndpointKey) -> tuple[object, ...] | None:
    endpoint = world.local.get(key)
    if endpoint is None:
        return None
    network = world.networks.get(endpoint.network)
    vlan = network.vlan if network is not None else 0
    return endpoint.mac, endpoint.ip, endpoint.ip6, endpoint.group_id, endpoint.group_vlan, vlan
