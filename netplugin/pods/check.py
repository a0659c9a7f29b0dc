"""CHECK: compares a pod's interface with what its ADD made.

In comes the request with the result of the ADD; the text of the error that goes out names all that
differs: in the journal, the store, Open vSwitch, the flows, the host ports, the pod's namespace,
and the runtime's memory of the ADD (`netplugin.cni.previous_result`). It changes nothing: what this
host can correct is corrected by `netplugin.pods.pod_ports`,
`netplugin.pods.host_port_mappings.port_mappings` and the audit of the flows.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

from core.ids import EndpointKey
from netplugin.cni import previous_result
from netplugin.cni.errors import InterfaceDiffers
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from netplugin.kernel.links.pod_link_state import FoundLink
from netplugin.pods.addressing import result_of
from netplugin.pods.host_port_mappings.port_mappings import PortMappings
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from ofnet.world import Bridge
from state.records import NetworkRecord


class PodCheck:
    """Carries out CHECKs. One per agent."""

    def __init__(
        self, host: PodHost, mtus: PodMtus, pod_ports: PodPorts, mappings: PortMappings
    ) -> None:
        self._host = host
        self._mtus = mtus
        self._ports = pod_ports
        self._mappings = mappings

    async def check(self, request: PodRequest) -> None:
        """Return if an interface is as its ADD left it.

        Raises InterfaceDiffers, or another ContivError if that cannot be told.
        """
        # Under the container's lock an ADD or DEL is over, and nothing it works on seems faulty.
        async with self._host.registry.lock(request.spec.container_id):
            found = [fault async for fault in self._faults(request)]
        if found:
            about = f"{request.spec.ifname} of container {request.spec.container_id}"
            raise InterfaceDiffers(f"{about}: {'; '.join(found)}")

    async def faults_of(self, key: EndpointKey) -> list[str]:
        """Return the faults of an endpoint's port and the pod's links, without its ADD.

        Nothing is said of one that a call is working on. Raises a ContivError if it cannot be told.
        """
        entry = next((one for one in self._host.registry.idle() if one.key == key), None)
        record = self._host.world.endpoint_records.get(key)
        if entry is None or record is None:
            return []
        network = self._host.world.networks.get(record.network)
        if network is None:
            return [f"the store does not know network {record.network}"]
        faults = list(self._port_faults(entry, network))
        if not entry.spec.handed_over:
            result = result_of(entry, record, network, self._mtus.of(Bridge(entry.bridge)))
            faults += await self._link_faults(entry.netns, entry, network, result)
        return faults

    async def _faults(self, request: PodRequest) -> AsyncIterator[str]:
        entry = self._host.registry.find(request.spec.container_id, request.spec.ifname)
        if entry is None or entry.state is not EntryState.PRESENT:
            yield "this host has no such interface: delete the pod"
            return
        if entry.cut_off:
            yield "another endpoint has its addresses: delete the pod"
            return
        if entry.source:  # it has nothing but its link, which is KubeVirt's by now
            return
        record = self._host.world.endpoint_records.get(entry.key)
        network = self._host.world.networks.named(entry.spec.network, entry.spec.tenant)
        if record is None or network is None:
            yield f"the store does not know endpoint {entry.key}"
            return
        if record.homing_host != self._host.settings.label:
            yield f"endpoint {entry.key} is on host {record.homing_host} now"
        result = result_of(entry, record, network, self._mtus.of(Bridge(entry.bridge)))
        for fault in previous_result.differences(request, result):
            yield fault
        for fault in self._port_faults(entry, network):
            yield fault
        if fault := await self._flow_fault(entry):
            yield fault
        for fault in await self._mapping_faults(request, entry):
            yield fault
        result = previous_result.kept_routes(request, result)
        for fault in await self._link_faults(request.spec.netns, entry, network, result):
            yield fault

    def _port_faults(self, entry: JournalEntry, network: NetworkRecord) -> Iterator[str]:
        name = port_names.switch_name(entry.port)
        row = self._host.ovsdb.ports(entry.bridge).get(name)
        if row is None:
            yield f"port {name} is missing on {entry.bridge}"
            return
        tag = self._ports.tag(entry, network)
        port = self._host.world.endpoints.port(entry.key)
        wanted = entry.port if port is None else port.ofport  # adopted ones have other numbers
        if row.ofport != wanted:
            reason = f": {row.error}" if row.error else ""
            yield f"port {name} has number {row.ofport} instead of {wanted}{reason}"
        if row.tag != tag:
            yield f"port {name} has VLAN {row.tag} instead of {tag}"
        if row.external_ids.get(port_names.ENDPOINT_ID) != entry.key:
            yield f"port {name} is not marked as that of {entry.key}"
        if self._has_host_interface(entry, network):
            access = port_names.access_name(entry.port)
            if access not in self._host.ovsdb.ports(Bridge.VXLAN):
                yield f"port {access} is missing on {Bridge.VXLAN}"

    async def _flow_fault(self, entry: JournalEntry) -> str:
        """Return what keeps the endpoint's flows from the switch, "" for nothing."""
        try:
            async with asyncio.timeout(self._host.settings.timing.flows_checked):
                return await self._host.reconciler.unrealised(Bridge(entry.bridge), entry.key)
        except TimeoutError:
            return f"the flows of {entry.bridge} differ from what they should be"

    async def _mapping_faults(self, request: PodRequest, entry: JournalEntry) -> list[str]:
        if request.spec.mappings != entry.spec.mappings:
            return ["runtimeConfig.portMappings are not those of the ADD"]
        return await self._mappings.faults(entry)

    async def _link_faults(
        self, netns: str, entry: JournalEntry, network: NetworkRecord, result: PodResult
    ) -> list[str]:
        links = self._host.links
        faults = []
        if result.host_ifname not in await links.links():
            faults.append(f"link {result.host_ifname} is missing")
        elif entry.spec.receive_limit.rate and not await links.receives_at_most(
            result.host_ifname, entry.spec.receive_limit.rate, entry.spec.receive_limit.burst
        ):
            faults.append(
                f"link {result.host_ifname} does not limit the pod to "
                f"{entry.spec.receive_limit.rate} kbit/s"
            )
        inside = await links.pod_link(netns, entry.spec.ifname)
        if inside is None:
            return [*faults, f"link {entry.spec.ifname} is missing in {netns}"]
        faults.extend(_inside_faults(entry.spec.ifname, inside, result))
        if self._has_host_interface(entry, network):
            access = await links.pod_link(netns, port_names.ACCESS_IFNAME)
            if access is None or not access.gateways:
                faults.append(f"{port_names.ACCESS_IFNAME} has no default route to the host")
        return faults

    def _has_host_interface(self, entry: JournalEntry, network: NetworkRecord) -> bool:
        return entry.spec.default_route and network.by_host


def _inside_faults(ifname: str, found: FoundLink, result: PodResult) -> Iterator[str]:
    """Yield what a pod's link lacks. Another plugin of the chain may have added to it."""
    if not found.up:
        yield f"link {ifname} is down"
    if found.mac.lower() != result.mac.lower():
        yield (
            f"link {ifname} has MAC address {found.mac} instead of {result.mac}: the switch knows "
            "the pod by the latter and drops what it sends; ask for another one by capability mac"
        )
    for address in (result.ipv4, result.ipv6):
        if address is None:
            continue
        if address not in found.addresses:
            yield f"link {ifname} has no address {address}"
        elif (
            result.own_routes
            and address.network.num_addresses > 1
            and address.network not in found.routes
        ):
            yield f"link {ifname} has no route to {address.network}"
    for gateway in (result.gateway, result.gateway6):
        if result.default_route and gateway is not None and gateway not in found.gateways:
            yield f"link {ifname} has no default route by {gateway}"
