"""The steps of an ADD, run in parallel where they do not depend on each other.

In come the request and a journal entry for it; out comes the result for the runtime. First the
journal is written. Then the veth pair (`netplugin.kernel.netns`) and the OVS port
(`netplugin.pods.pod_ports`) are created while netmaster is asked for the endpoint; its answer
starts the flows (`netplugin.bridges.reconciler`) and the configuration of the namespace. The ADD is
done when the port has its OpenFlow number, the switch has acknowledged the flows and the namespace
is configured, so that a pod's first packet is not lost (docs/notes/host.md §3).

What a failed step leaves is undone by `netplugin.pods.handler`.
"""

import asyncio
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from core.errors import NotFound
from core.ids import EndpointKey, GroupName, endpoint_key, network_id
from core.tasks import unbroken
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from netplugin.kernel.pod_links import PodLink
from netplugin.masters.client import WantedEndpoint
from netplugin.pods.claims import with_addresses
from netplugin.pods.host import PodHost
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.journal import EntryState, JournalEntry
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.world import port_names
from netplugin.world.conversion import LocalPort
from netplugin.world.networks import BRIDGE_OF
from ofnet.world import Bridge
from state.records import EndpointRecord, NetworkRecord


class PodAdd:
    """Carries out ADDs. One per agent."""

    def __init__(
        self, host: PodHost, mtus: PodMtus, pod_ports: PodPorts, host_interfaces: HostInterfaces
    ) -> None:
        self._host = host
        self._mtus = mtus
        self._ports = pod_ports
        self._host_interfaces = host_interfaces
        self._world = host.world
        self._reconciler = host.reconciler

    def new_entry(self, request: PodRequest) -> JournalEntry:
        """Return the journal entry of a new endpoint, with a free port number."""
        known = self._world.networks.get(network_id(request.network, request.tenant))
        return JournalEntry(
            key=endpoint_key_of(request),
            container_id=request.container_id,
            netns=request.netns,
            ifname=request.ifname,
            tenant=request.tenant,
            network=request.network,
            group=request.group or GroupName(""),
            port=self._ports.next_number(),
            bridge=Bridge.VXLAN if known is None else BRIDGE_OF[known.encap],
            state=EntryState.ADDING,
        )

    async def repeat(self, entry: JournalEntry, name: str) -> PodResult | None:
        """Return the result of the ADD that created an endpoint; None if it is no longer valid."""
        # netmaster is asked, not only the registry: it may have reclaimed the endpoint meanwhile
        # and granted another address, which the pod does not have.
        record, network = await self._request_endpoint(entry, name)
        port = self._world.endpoints.port(entry.key)
        if port is None or _identity(port.record) != _identity(record):
            return None
        return self._result(entry, record, network)

    async def make(self, entry: JournalEntry, name: str) -> PodResult:
        """Create an endpoint; return when it forwards packets.

        Raises ContivError, the first of several failures, after all steps have ended.
        """
        # Usually the network is known here already, so the port is created while netmaster works. A
        # guess that was wrong (another bridge or VLAN than netmaster's answer says) is corrected
        # below by a second `attach`.
        known = self._world.networks.get(network_id(entry.network, entry.tenant))
        if known is not None and self._world.forwarding.delivers_without_flows(known.encap):
            # On bridged VLANs the switch delivers to ports that have no flows. There the flows come
            # before the port, or packets would pass that no policy has filtered.
            known = None
        # Journal first: from here on there may be a link, a port or an address to undo, and the
        # next agent knows that only from the journal, should this one be killed.
        await self._save(entry)
        try:
            async with asyncio.TaskGroup() as steps:
                wanted = steps.create_task(self._request_endpoint(entry, name))
                linked = steps.create_task(self._create_link(entry))
                tag = None if known is None else self._ports.tag(entry, known)
                if known is not None:
                    steps.create_task(self._ports.attach(entry, known))
                record, network = await wanted
                if entry.bridge is not BRIDGE_OF[network.encap]:
                    entry, tag = replace(entry, bridge=BRIDGE_OF[network.encap]), None
                steps.create_task(self._configure_namespace(linked, entry, record, network))
                forwarded = steps.create_task(self._program_flows(entry, record))
                # PRESENT is written while the last steps run. If one of them fails the entry is
                # rewritten as REMOVING; if the agent dies, the runtime gets no answer and sends a
                # DEL, which finds the endpoint.
                present = replace(with_addresses(entry, record), state=EntryState.PRESENT)
                steps.create_task(self._save(present))
                if self._world.forwarding.delivers_without_flows(network.encap):
                    await forwarded
                if tag is None or tag != self._ports.tag(entry, network):
                    steps.create_task(self._ports.attach(entry, network))
        except BaseExceptionGroup as group:
            raise _first_failure(group) from group
        return self._result(entry, record, network)

    async def _request_endpoint(
        self, entry: JournalEntry, name: str
    ) -> tuple[EndpointRecord, NetworkRecord]:
        wanted = WantedEndpoint(
            host=self._host.label,
            tenant=entry.tenant,
            network=entry.network,
            group=entry.group or None,
            endpoint_id=entry.container_id,
            common_name=name,
        )
        try:
            # Cancelling must not abandon the request: it could reach netmaster after the release
            # that undoes this ADD, and the address would stay allocated without an endpoint.
            granted = await unbroken(self._host.master.create_endpoint(wanted))
        except NotFound as exc:  # netmaster's text does not name what was not found
            group = f", group {entry.group}" if entry.group else ""
            raise NotFound(f"{exc}: tenant {entry.tenant}, network {entry.network}{group}") from exc
        # Of any two pods, the host of the younger one has the record of the older one before the
        # younger one may send. So at least one of both hosts can apply the policies between them.
        await self._reconciler.records.caught_up(
            granted.revisions, self._host.timing.policies_known
        )
        record = granted.record
        return record, await self._reconciler.records.network(
            record.network, self._host.timing.network_known
        )

    async def _create_link(self, entry: JournalEntry) -> None:
        # A thread cannot be cancelled: an abandoned one would create the link after the undo has
        # removed it.
        await unbroken(
            self._host.links.add_pod_link(
                PodLink(
                    host_name=port_names.switch_name(entry.port),
                    ifname=entry.ifname,
                    netns_path=entry.netns,
                    mtu=self._mtus.of(Bridge(entry.bridge)),
                    tx_off=self._host.tx_off,
                )
            )
        )

    async def _program_flows(self, entry: JournalEntry, record: EndpointRecord) -> None:
        port = LocalPort(record=record, ofport=entry.port, number=entry.port)
        await self._reconciler.put_port(entry.key, port)

    async def _configure_namespace(
        self,
        linked: asyncio.Task[None],
        entry: JournalEntry,
        record: EndpointRecord,
        network: NetworkRecord,
    ) -> None:
        await linked
        ipv4, ipv6 = _addresses(record, network)
        gateways = _gateways(record, network)
        await unbroken(
            self._host.links.configure_pod(
                entry.netns,
                entry.ifname,
                record.mac_address,
                [ipv4] if ipv6 is None else [ipv4, ipv6],
                [gateway for gateway in gateways if gateway is not None],
            )
        )
        await self._host.links.passing(port_names.switch_name(entry.port))
        if not network.gateway:
            await self._attach_to_host(entry)

    async def _attach_to_host(self, entry: JournalEntry) -> None:
        """Route a pod by its host to everything but services (`driver.go: addPod`)."""
        await self._host_interfaces.attach(entry, self._mtus.of(Bridge.VXLAN))
        if self._host.service_subnet is not None:
            route = self._host.links.route_pod(entry.netns, entry.ifname, self._host.service_subnet)
            await unbroken(route)

    def _result(
        self, entry: JournalEntry, record: EndpointRecord, network: NetworkRecord
    ) -> PodResult:
        ipv4, ipv6 = _addresses(record, network)
        gateway, gateway6 = _gateways(record, network)
        return PodResult(
            endpoint_id=record.endpoint_id,
            mac=record.mac_address,
            ipv4=ipv4,
            ipv6=ipv6,
            gateway=gateway,
            gateway6=gateway6,
            mtu=self._mtus.of(Bridge(entry.bridge)),
            host_ifname=port_names.switch_name(entry.port),
        )

    async def _save(self, entry: JournalEntry) -> None:
        self._host.registry.put(entry)
        await self._host.journal.write(entry)


def endpoint_key_of(request: PodRequest) -> EndpointKey:
    """Return netmaster's key of the endpoint that a request names."""
    return endpoint_key(network_id(request.network, request.tenant), request.container_id)


def _identity(record: EndpointRecord) -> tuple[str, str, str]:
    return record.mac_address, record.ip_address, record.ipv6_address


def _first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure of parallel steps; the others are cancelled because of it."""
    first = group.exceptions[0]
    return _first_failure(first) if isinstance(first, BaseExceptionGroup) else first


def _addresses(
    record: EndpointRecord, network: NetworkRecord
) -> tuple[IPv4Interface, IPv6Interface | None]:
    ipv4 = IPv4Interface((record.ip_address, network.subnet_len))
    if not record.ipv6_address:
        return ipv4, None
    return ipv4, IPv6Interface((record.ipv6_address, network.ipv6_subnet_len))


def _gateways(
    record: EndpointRecord, network: NetworkRecord
) -> tuple[IPv4Address | None, IPv6Address | None]:
    """Return the pod's default gateways; the IPv6 one only where the pod has an IPv6 address."""
    gateway6 = network.ipv6_gateway if record.ipv6_address else ""
    return (
        IPv4Address(network.gateway) if network.gateway else None,
        IPv6Address(gateway6) if gateway6 else None,
    )
