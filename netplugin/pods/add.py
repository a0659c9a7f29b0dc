"""How a pod gets its interface: the steps of an ADD, side by side where they can be.

In come the request and a journal entry for it; out comes what the runtime is told. The journal is
written, then the veth pair (`netplugin.kernel.netns`) and the port (`netplugin.pods.pod_ports`) are
made while netmaster is asked for the endpoint; when it has answered, flows
(`netplugin.bridges.reconciler`) and the inside of the namespace follow. All is done when the port
has its OpenFlow number, the switch has acknowledged the flows and the inside is ready, so that a
pod's first packet is not lost (docs/original/host-notes.md §3). Where a switch delivers to ports it
has no flows of (bridged VLANs) the flows come before the port, so that none passes unjudged.

What a step that fails leaves is `netplugin.pods.handler`' to undo.
"""

import asyncio
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface
from typing import Final

from core.errors import NotFound
from core.ids import EndpointKey, GroupName, HostLabel, endpoint_key, network_id
from core.tasks import unbroken
from netplugin.bridges.reconciler import Reconciler
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.pod_links import PodLink
from netplugin.masters.client import MasterApi, WantedEndpoint
from netplugin.pods.endpoint_registry import EndpointRegistry
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.journal import EntryState, Journal, JournalEntry
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.world import port_names
from netplugin.world.builder import WorldBuilder
from netplugin.world.conversion import LocalPort
from netplugin.world.networks import BRIDGE_OF
from ofnet.world import Bridge
from state.records import EndpointRecord, NetworkRecord

NETWORK_KNOWN: Final = 3.0
"""Seconds a network may take to reach this host after netmaster has spoken of it."""
POLICIES_KNOWN: Final = 5.0
"""Seconds until this host has what netmaster knew of policies and endpoints when it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What does not change while the agent runs.

    `tx_off` says that pods compute their own checksums, which the userspace datapath demands;
    `services` is the subnet of Kubernetes' services, if there are any.
    """

    label: HostLabel
    tx_off: bool
    services: IPv4Network | None = None


class PodAdd:
    """Makes the interfaces of pods. One per agent."""

    def __init__(
        self,
        *,
        facts: HostFacts,
        mtus: PodMtus,
        master: MasterApi,
        journal: Journal,
        links: KernelLinks,
        roster: EndpointRegistry,
        pod_ports: PodPorts,
        access: HostInterfaces,
        world: WorldBuilder,
        reconciler: Reconciler,
    ) -> None:
        self._facts = facts
        self._mtus = mtus
        self._master = master
        self._journal = journal
        self._links = links
        self._roster = roster
        self._ports = pod_ports
        self._access = access
        self._world = world
        self._reconciler = reconciler

    def entry(self, request: PodRequest) -> JournalEntry:
        """Return the journal entry to begin with, with a number for the port."""
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

    async def again(self, entry: JournalEntry, name: str) -> PodResult | None:
        """Return the result of the ADD that made an endpoint; None if it no longer holds."""
        record, network = await self._ask(entry, name)
        port = self._world.endpoints.port(entry.key)
        if port is None or _identity(port.record) != _identity(record):
            return None
        return self._result(entry, record, network)

    async def make(self, entry: JournalEntry, name: str) -> PodResult:
        """Make all there is to an endpoint; return when it works.

        Raises ContivError, the first of several failures, with no step still at work.
        """
        known = self._world.networks.get(network_id(entry.network, entry.tenant))
        if known is not None and self._world.forwarding.delivers_without_flows(known.encap):
            known = None  # the port has to wait for the flows
        await self._keep(entry)
        try:
            async with asyncio.TaskGroup() as steps:
                wanted = steps.create_task(self._ask(entry, name))
                linked = steps.create_task(self._link(entry))
                tag = None if known is None else self._ports.tag(entry, known)
                if known is not None:
                    steps.create_task(self._ports.attach(entry, known))
                record, network = await wanted
                if entry.bridge is not BRIDGE_OF[network.encap]:
                    # what was known of the network, if anything, was wrong
                    entry, tag = replace(entry, bridge=BRIDGE_OF[network.encap]), None
                steps.create_task(self._furnish(linked, entry, record, network))
                forwarded = steps.create_task(self._forward(entry, record))
                steps.create_task(self._keep(replace(entry, state=EntryState.PRESENT)))
                if self._world.forwarding.delivers_without_flows(network.encap):
                    await forwarded
                if tag is None or tag != self._ports.tag(entry, network):
                    steps.create_task(self._ports.attach(entry, network))
        except BaseExceptionGroup as group:
            raise _reason(group) from group
        return self._result(entry, record, network)

    async def _ask(self, entry: JournalEntry, name: str) -> tuple[EndpointRecord, NetworkRecord]:
        wanted = WantedEndpoint(
            host=self._facts.label,
            tenant=entry.tenant,
            network=entry.network,
            group=entry.group or None,
            endpoint_id=entry.container_id,
            common_name=name,
        )
        try:
            # a request on its way must not reach netmaster after the release that is to undo it
            granted = await unbroken(self._master.create_endpoint(wanted))
        except NotFound as exc:  # netmaster's words do not say what was not found
            group = f", group {entry.group}" if entry.group else ""
            raise NotFound(f"{exc}: tenant {entry.tenant}, network {entry.network}{group}") from exc
        # of any two pods the younger one's host knows the other: one of them can always judge
        await self._reconciler.records.caught_up(granted.revisions, POLICIES_KNOWN)
        record = granted.record
        return record, await self._reconciler.records.network(record.network, NETWORK_KNOWN)

    async def _link(self, entry: JournalEntry) -> None:
        # a thread cannot be called back: the link would come after it was to be removed
        await unbroken(
            self._links.add_pod_link(
                PodLink(
                    host_name=port_names.switch_name(entry.port),
                    ifname=entry.ifname,
                    netns_path=entry.netns,
                    mtu=self._mtus.of(Bridge(entry.bridge)),
                    tx_off=self._facts.tx_off,
                )
            )
        )

    async def _forward(self, entry: JournalEntry, record: EndpointRecord) -> None:
        port = LocalPort(record=record, ofport=entry.port, number=entry.port)
        await self._reconciler.put_port(entry.key, port)

    async def _furnish(
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
            self._links.configure_pod(
                entry.netns,
                entry.ifname,
                record.mac_address,
                [ipv4] if ipv6 is None else [ipv4, ipv6],
                [gateway for gateway in gateways if gateway is not None],
            )
        )
        await self._links.passing(port_names.switch_name(entry.port))
        if not network.gateway:
            await self._go_by_host(entry)

    async def _go_by_host(self, entry: JournalEntry) -> None:
        """Give a pod a way by its host to everything but services (`driver.go: addPod`)."""
        await self._access.attach(entry, self._mtus.of(Bridge.VXLAN))
        if self._facts.services is not None:
            way = self._links.route_pod(entry.netns, entry.ifname, self._facts.services)
            await unbroken(way)

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

    async def _keep(self, entry: JournalEntry) -> None:
        self._roster.put(entry)
        await self._journal.write(entry)


def endpoint_key_of(request: PodRequest) -> EndpointKey:
    """Return the key under which netmaster keeps the endpoint a request speaks of."""
    return endpoint_key(network_id(request.network, request.tenant), request.container_id)


def _identity(record: EndpointRecord) -> tuple[str, str, str]:
    return record.mac_address, record.ip_address, record.ipv6_address


def _reason(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure of steps that ran side by side; the others followed from it."""
    first = group.exceptions[0]
    return _reason(first) if isinstance(first, BaseExceptionGroup) else first


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
