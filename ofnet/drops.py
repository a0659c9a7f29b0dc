"""Reads what a switch reports of packets that it dropped: which flow, which ends. Pure.

In come packets that flows of `ofnet.pipelines.features.flow_records` have reported; out go
`DroppedPacket`s, to which `netplugin.flow_records` gives names and reasons. Frames are of pods, and
read as untrusted input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ofnet import logged_rules
from ofnet.changes import ObjectId
from ofnet.channel.wire import PacketIn
from ofnet.desired import Desired
from ofnet.logged_rules import LoggedEnd
from ofnet.packets.directory import Directory
from ofnet.pipelines.features import flow_records
from ofnet.tables import TableId, mode_of
from ofnet.world import Bridge, World


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPacket:
    """A packet that a flow dropped: in which table, and the object for which the flow is there.

    `refused` says that it has come to the agent for something else too: an answer, a log.
    """

    bridge: Bridge
    table: TableId
    owner: ObjectId
    refused: bool
    protocol: int
    source: LoggedEnd
    destination: LoggedEnd


DropNotice = Callable[[DroppedPacket], None]
"""Takes what was read."""


class Dropping(NamedTuple):
    """The object whose flow keeps packets from their destination, and reports them.

    `only` says that they come to the agent for nothing else.
    """

    owner: ObjectId
    table: TableId
    only: bool


class DroppingFlows:
    """The flows that report what they keep from its destination, by their cookies."""

    # A cookie is a digest of its flow, so one that is known stays right. All are read again only
    # when one is not known and flows have changed meanwhile: not with each change of the flows.

    def __init__(self, desired: Desired) -> None:
        self._desired = desired
        self._by_cookie: dict[int, Dropping] = {}
        self._changed = True

    def changed(self) -> None:
        """Take note that flows have changed."""
        self._changed = True

    def by_cookie(self, cookie: int) -> Dropping | None:
        """Return what a packet was dropped by; None for a flow that drops none."""
        found = self._by_cookie.get(cookie)
        if found is None and self._changed:
            self._changed = False
            self._by_cookie = {
                flow.cookie: Dropping(owner, flow.table, flow_records.only_reports(flow))
                for flow in self._desired.whole()
                if flow_records.reports_drops(flow)
                and (owner := self._desired.owner(flow.key)) is not None
            }
            found = self._by_cookie.get(cookie)
        return found


def read(
    packet: PacketIn, by: Dropping, directory: Directory, *, bridge: Bridge, world: World
) -> DroppedPacket | None:
    """Return what a reported packet says; None for one that is not whole IP."""
    found = logged_rules.ends(packet)
    if found is None:
        return None
    protocol, source, destination = found
    vrfs = logged_rules.vrfs_of(packet, mode_of(bridge, world.fwd_mode), world)
    if vrfs == [0]:  # the first table has dropped it, before it knew of VRFs
        attached = directory.attachment(packet.in_port)
        vrfs = [attached.network.vrf] if attached is not None and attached.network else []
    return DroppedPacket(
        bridge=bridge,
        table=TableId(packet.table),
        owner=by.owner,
        refused=not by.only,
        protocol=protocol,
        source=logged_rules.known(source, directory, vrfs),
        destination=logged_rules.known(destination, directory, vrfs),
    )
