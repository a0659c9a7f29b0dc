"""Counts what the pods of this host send and receive, and which packets of them are dropped.

In come the counters of links, read when somebody asks for numbers and before a pod goes; drops that
the switch has reported or counted (`netplugin.flow_records`); and those of the source guard
(`netplugin.bridges.guards`). `netplugin.pod_metrics.samples` writes the accounts for `/metrics`.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from core.errors import HostError
from core.ids import EndpointKey, GroupName, NetworkName, TenantName, group_key
from core.retry import Loop
from netplugin.flow_records import end_names
from netplugin.kernel.links.link_counters import LinkCount
from netplugin.pod_metrics.ledger import Direction, DropKind, Group, Ledger, PodTraffic, PresentPod
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from ofnet.changes import ObjectId, ObjectKind
from ofnet.drops import DroppedPacket

if TYPE_CHECKING:
    from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow

log = logging.getLogger(__name__)

ReadLinks = Callable[[tuple[str, ...]], Mapping[str, LinkCount]]
_SPOOFED: Final = DropKind(Direction.SENT, end_names.SPOOFED)


class PodMetrics:
    """The accounts of this host's pods and groups. One per agent.

    `most` is how many pods are named. `clock` is monotonic.
    """

    def __init__(
        self,
        world: WorldBuilder,
        read: ReadLinks,
        *,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = most
        self._world = world
        self._read = read
        self._clock = clock
        self._loop = Loop(log, "traffic of pods not counted")
        self._known: dict[EndpointKey, tuple[EndpointRow, PresentPod]] = {}
        self.ledger = Ledger(self._links() or {}, clock())

    def look(self) -> None:
        """Read the counters of now, of all pods. It takes a millisecond for some hundred links."""
        # Not in a thread: nothing here waits, and a look that ended after a later one would find
        # counters that have gone back.
        links = self._links()
        if links is not None:
            present = {
                key: pod for key, port in self._ports.items() if (pod := self._pod(key, port))
            }
            self._known = {key: one for key, one in self._known.items() if key in present}
            self.ledger.take(present, links, self._clock())
            self.ledger.forget(self._exists)

    def report(self, packet: DroppedPacket, reason: str) -> None:
        """Take note of a packet that was dropped: its sender's, or else its receiver's."""
        ends = (Direction.SENT, packet.source), (Direction.RECEIVED, packet.destination)
        for direction, end in ends:
            pod = self._here(end.endpoint) if end.endpoint is not None else None
            if pod is not None and end.endpoint is not None:
                self.ledger.report(end.endpoint, pod, DropKind(direction, reason), 1)
                return

    def count(self, link: str, owner: ObjectId, reason: str, packets: int) -> None:
        """Take note of packets that came by a link and were dropped for an object."""
        if owner.kind is ObjectKind.LOCAL and reason == end_names.SPOOFED:
            return  # the source guard's own counters have them
        number = port_names.pod_number(link)
        for key in self._behind(number) if number is not None else ():
            self._count(key, DropKind(Direction.SENT, reason), packets)

    def guarded(self, key: str, packets: int) -> None:
        """Take note of packets of an endpoint that the source guard has dropped."""
        self._count(EndpointKey(key), _SPOOFED, packets)

    @property
    def _ports(self) -> Mapping[EndpointKey, LocalPort]:
        return self._world.endpoints.ports

    def _count(self, key: EndpointKey, drop: DropKind, packets: int) -> None:
        pod = self._here(key)
        if pod is not None:
            self.ledger.count(key, pod, drop, packets)

    def _behind(self, number: int) -> Iterator[EndpointKey]:
        return (key for key, port in self._ports.items() if port.number == number)

    def _here(self, key: EndpointKey) -> PresentPod | None:
        port = self._ports.get(key)
        return self._pod(key, port) if port is not None else None

    def _pod(self, key: EndpointKey, port: LocalPort) -> PresentPod | None:
        """Return what is known of a pod; None for an interface of the host itself."""
        row = self._world.endpoints.row(key)
        if port.number is None or row is None:
            return None
        known, pod = self._known.get(key, (None, None))
        # the network may have been read after its endpoint, and tells whose it is
        if known is None or known.record is not row.record or known.tenant != row.tenant:
            links = port_names.switch_name(port.number), port_names.access_name(port.number)
            pod = PresentPod(end_names.of_endpoint(row), links)
            self._known[key] = row, pod
        return pod

    def _links(self) -> Mapping[str, PodTraffic] | None:
        """Return what pods have received and sent, by the host's ends of their links."""
        try:
            found = self._read(port_names.POD_LINKS)
        except HostError as exc:
            self._loop.failed(exc)
            return None
        self._loop.succeeded()
        # what the host's end sends the pod receives
        return {
            name: PodTraffic(
                received_bytes=one.sent_bytes,
                received_packets=one.sent_packets,
                sent_bytes=one.received_bytes,
                sent_packets=one.received_packets,
            )
            for name, one in found.items()
        }

    def _exists(self, group: Group) -> bool:
        if group.group:
            key = group_key(GroupName(group.group), TenantName(group.tenant))
            return self._world.endpoints.group(key) is not None
        name, tenant = NetworkName(group.network), TenantName(group.tenant)
        return self._world.networks.named(name, tenant) is not None
