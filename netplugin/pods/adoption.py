"""Adopts running pods that another agent has connected: the original, or one whose journal is lost.

In come the ports in OVSDB that are marked as endpoints' (docs/original/ofnet-ovsdb.md §3), the
store's records of this host's endpoints (`netplugin.world.builder`), and where the pods' ends of
the links are (`netplugin.kernel.links.pod_places`). Out go journal entries, as if this agent had
made the endpoints; ports, links and namespaces stay as they are. A running pod that the store does
not know keeps its port, without flows. `netplugin.startup.resync` has pods adopted once all records
are read; what no endpoint has is swept at the end of a start.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from core.ids import EndpointKey, GroupName
from core.logs import fields
from netplugin.cni.interface_spec import (
    FIRST_INTERFACE,
    Delivery,
    InterfaceSpec,
    container_of,
)
from netplugin.kernel.links.pod_places import PodPlace
from netplugin.ovsdb import PortRow
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.pods.teardown import Teardown
from netplugin.world.bridges import port_names
from netplugin.world.bridges.networks import BRIDGE_OF
from ofnet.world import Bridge
from state.records import EndpointRecord, NetworkRecord

log = logging.getLogger(__name__)

_BRIDGES = frozenset(Bridge)


@dataclass(frozen=True, slots=True)
class MarkedPort:
    """A port of a pod that no journal entry knows: its number, its row and the endpoint's key."""

    number: int
    row: PortRow
    key: EndpointKey


class Adoption:
    """Adopts pods, and sweeps. One per agent; `delivery` is that of its orchestrator's pods."""

    def __init__(
        self, host: PodHost, pod_ports: PodPorts, teardown: Teardown, delivery: Delivery
    ) -> None:
        self._host = host
        self._ports = pod_ports
        self._teardown = teardown
        self._delivery = delivery

    async def adopt(self) -> None:
        """Adopt the pods of all marked ports, once. Raises HostError."""
        marked = list(self._marked())
        places = await self._host.links.pod_places([port.row.name for port in marked])
        for port in marked:
            place = places.get(port.row.name)
            found = self._known(port)
            if place is None:
                continue  # the link is gone, and with it the pod: the port is swept
            if found is not None:
                await self._adopt(adopted(port, *found, place, self._delivery))
            elif place.inside:
                self._ports.leave_alone(port.number)
                log.warning(
                    "port of a pod that the store does not know, left alone",
                    extra=fields(endpoint=port.key, port=port.row.name),
                )

    async def sweep(self) -> None:
        """Remove links and OVS ports with a pod's name of no endpoint. Raises HostError.

        An agent that died in the middle of an ADD, or lost its journal, leaves some.
        """
        used = {
            name(number)
            for number in self._ports.used_numbers()
            for name in (port_names.switch_name, port_names.access_name)
        }
        links = {n for n in await self._host.links.links() if _is_pods(n)}
        for bridge in Bridge:
            rows = {n for n in self._host.ovsdb.ports(bridge) if _is_pods(n)}
            self._teardown.sweep(bridge, rows - used)
            links -= rows
        self._teardown.sweep(Bridge.VXLAN, links - used)

    def _marked(self) -> Iterator[MarkedPort]:
        known = self._host.registry.ports() | self._teardown.ports()
        for name, row in self._host.ovsdb.ports().items():
            number = port_names.number_of(name)
            key = EndpointKey(row.external_ids.get(port_names.ENDPOINT_ID, ""))
            if number is None or not key or row.bridge not in _BRIDGES or number in known:
                continue
            if self._host.registry.get(key) is None and not self._teardown.has(key):
                yield MarkedPort(number, row, key)

    def _known(self, port: MarkedPort) -> tuple[EndpointRecord, NetworkRecord] | None:
        """Return what the store has of a port's endpoint, if it is one of this host's."""
        world = self._host.world
        record = world.endpoint_records.get(port.key)
        network = world.networks.get(record.network) if record is not None else None
        if record is None or network is None or record.homing_host != self._host.settings.label:
            return None
        return (record, network) if BRIDGE_OF[network.encap] == port.row.bridge else None

    async def _adopt(self, entry: JournalEntry) -> None:
        await self._host.journal.write(entry)
        self._ports.reserve(entry.port)
        self._host.registry.put(entry)
        log.info(
            "pod adopted",
            extra=fields(
                endpoint=entry.key,
                address=entry.ip_address,
                port=port_names.switch_name(entry.port),
                netns=entry.netns,
            ),
        )


def _is_pods(name: str) -> bool:
    return port_names.pod_number(name) is not None


def adopted(
    port: MarkedPort,
    record: EndpointRecord,
    network: NetworkRecord,
    place: PodPlace,
    delivery: Delivery,
) -> JournalEntry:
    """Return the journal entry of a pod that is connected already."""
    # A handed-over interface goes by one name here, whatever the engine called it.
    named = place.ifname if delivery is Delivery.INSIDE else ""
    handed_over = delivery is Delivery.HANDED_OVER
    spec = InterfaceSpec(
        container_id=container_of(record.endpoint_id),
        endpoint=record.endpoint_id,
        netns="" if handed_over else place.netns_path,
        ifname=named or FIRST_INTERFACE,
        tenant=network.tenant,
        network=network.name,
        group=GroupName(record.group_key.rpartition(":")[0]),
        labels=record.labels or {},
        delivery=delivery,
    )
    return JournalEntry(
        key=port.key,
        spec=spec,
        port=port.number,
        bridge=port.row.bridge,
        state=EntryState.PRESENT,
        joined=place.netns_path if handed_over else "",
        name=record.common_name,
        ip_address=record.ip_address,
        ipv6_address=record.ipv6_address,
    )
