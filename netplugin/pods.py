"""Adds and removes the endpoints of this host: the `PodHandler` behind the CNI server.

An ADD writes the journal, then makes the veth pair (`netplugin.netns`) and the port
(`netplugin.podports`) while it asks netmaster for the endpoint; when netmaster has answered, flows
(`netplugin.reconcile`) and the inside of the namespace follow. It returns when the port has its
OpenFlow number, the switch has acknowledged the flows and the inside is ready, so that a pod's
first packet is not lost (spec/host-notes.md §3). Where a switch delivers to ports it has no flows
of (bridged VLANs) the flows come before the port, so that none passes unjudged. When a step fails
all of them are undone.

A DEL takes the flows away, waits a moment for netmaster's release and answers; what remains (links,
OVS port, a release netmaster could not take) is `netplugin.removal`'s, from the journal, which
survives whatever happens to this process or to the master (design D10). Calls for one container are
serial, containers go side by side (`netplugin.roster`).
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface
from typing import Final

from core.errors import (
    Conflict,
    ContivError,
    HostError,
    MasterUnavailable,
    NotFound,
)
from core.ids import EndpointKey, GroupName, HostLabel, endpoint_key, network_id
from core.logs import fields
from core.tasks import unbroken
from netplugin import ports
from netplugin.accessports import AccessPorts
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from netplugin.journal import Entry, Journal, State
from netplugin.masters import Master, WantedEndpoint
from netplugin.mtu import PodMtus
from netplugin.netns import HostLinks
from netplugin.networks import BRIDGE_OF
from netplugin.podlinks import PodLink
from netplugin.podports import RECLAIMED, PodPorts
from netplugin.reconcile import Reconciler
from netplugin.removal import Removal
from netplugin.roster import Roster
from netplugin.translation import LocalPort
from netplugin.world import WorldBuilder
from ofnet.world import Bridge
from state.records import EndpointRecord, NetworkRecord

log = logging.getLogger(__name__)

NETWORK_KNOWN: Final = 3.0
"""Seconds a network may take to reach this host after netmaster has spoken of it."""
POLICIES_KNOWN: Final = 5.0
"""Seconds until this host has what netmaster knew of policies and endpoints when it was asked."""
OLD_GONE: Final = 4.0
"""Seconds an ADD waits for what an earlier one of the same pod has left to be removed."""
FLOWS_GONE: Final = 2.0
"""Seconds the switch may take to give up flows; one that is stuck does it when it is back."""
UNDONE: Final = 2.0
"""Seconds a failed ADD waits until nothing of it is left; what is still left goes on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What does not change while the agent runs.

    `tx_off` says that pods compute their own checksums, which the userspace datapath demands;
    `services` is the subnet of Kubernetes' services, if there are any.
    """

    label: HostLabel
    tx_off: bool
    services: IPv4Network | None = None


class Pods:
    """The endpoints of this host. One per agent."""

    def __init__(
        self,
        *,
        facts: HostFacts,
        mtus: PodMtus,
        master: Master,
        journal: Journal,
        links: HostLinks,
        roster: Roster,
        pod_ports: PodPorts,
        access: AccessPorts,
        world: WorldBuilder,
        reconciler: Reconciler,
        removal: Removal,
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
        self._removal = removal

    def recover(self, entries: list[Entry]) -> None:
        """Take over the journal of the agent before this one, once, before the first call.

        What it finished stays; what it left half done is taken away like a DEL, since no runtime
        was told of it.
        """
        for entry in entries:
            self._ports.seen(entry.port)
            if entry.state is State.PRESENT:
                self._roster.put(entry)
            else:
                self._removal.schedule(replace(entry, state=State.REMOVING))

    def keys(self) -> frozenset[EndpointKey]:
        """Return the endpoints this host has."""
        return self._roster.keys()

    async def add(self, request: PodRequest) -> PodResult:
        """Give a pod its interface; asked twice for the same one, answer the same again."""
        key = endpoint_key_of(request)
        async with self._roster.serial(request.container_id):
            known = self._roster.find(request.container_id, request.ifname)
            name = request.pod_name or request.container_id
            if known is not None:
                if _is_what(request, known) and (result := await self._again(known, name)):
                    return result
                await unbroken(self._take_away(known))
                await self._removal.finished(known.key, OLD_GONE)
            if (other := self._roster.get(key)) is not None:
                raise Conflict(
                    f"container {request.container_id} is on network {request.network} already, "
                    f"by its interface {other.ifname}"
                )
            await self._removal.finished(key, OLD_GONE)
            return await self._make(self._new_entry(request), name)

    async def delete(self, request: PodRequest) -> None:
        """Take a pod's interface away; nothing there is a success."""
        async with self._roster.serial(request.container_id):
            known = self._roster.find(request.container_id, request.ifname)
            if known is not None:
                await unbroken(self._take_away(known))
            for record in self._forgotten(request):
                await self._master.delete_endpoint(
                    request.tenant, request.network, record.endpoint_id
                )

    async def reclaim(self, key: EndpointKey) -> None:
        """Take an endpoint away by its record's key, as netmaster's clean-up asks."""
        known = self._roster.get(key)
        if known is not None:
            async with self._roster.serial(known.container_id):
                entry = self._roster.get(key)  # another one, maybe, after waiting
                if entry is not None:
                    await unbroken(self._take_away(entry))

    async def release(self, entry: Entry) -> None:
        """Take an endpoint away as a DEL would, unless it is another one by now."""
        async with self._roster.serial(entry.container_id):
            if self._roster.get(entry.key) is entry:
                await unbroken(self._take_away(entry))

    async def forsake(self, record: EndpointRecord, network: NetworkRecord) -> None:
        """Release a record of this host that nothing here stands for, unless something does now."""
        async with self._roster.serial(record.endpoint_id):
            if self.stands_for(record.key):
                return
            await self._master.delete_endpoint(network.tenant, network.name, record.endpoint_id)

    def cut_off(self, key: EndpointKey) -> None:
        """Take the flows of an endpoint away whose address is not its own any more."""
        log.warning("endpoint is not connected", extra=fields(endpoint=key, error=RECLAIMED))
        self._world.endpoints.remove_port(key)
        self._reconciler.wake()

    def stands_for(self, key: EndpointKey) -> bool:
        """Tell whether there is an endpoint of this key here, or one that is being removed."""
        return self._roster.get(key) is not None or self._removal.has(key)

    # -- ADD -----------------------------------------------------------------------------------

    def _new_entry(self, request: PodRequest) -> Entry:
        known = self._world.networks.get(network_id(request.network, request.tenant))
        return Entry(
            key=endpoint_key_of(request),
            container_id=request.container_id,
            netns=request.netns,
            ifname=request.ifname,
            tenant=request.tenant,
            network=request.network,
            group=request.group or GroupName(""),
            port=self._ports.next_number(),
            bridge=Bridge.VXLAN if known is None else BRIDGE_OF[known.encap],
            state=State.ADDING,
        )

    async def _make(self, entry: Entry, name: str) -> PodResult:
        self._roster.put(entry)
        try:
            result = await self._build(entry, name)
        except BaseException as exc:
            log.warning("pod not added", extra=fields(endpoint=entry.key, error=exc))
            await unbroken(self._undo(entry, exc))
            raise
        log.info(
            "pod added",
            extra=fields(endpoint=entry.key, address=result.ipv4, port=result.host_ifname),
        )
        return result

    async def _build(self, entry: Entry, name: str) -> PodResult:
        known = self._world.networks.get(network_id(entry.network, entry.tenant))
        if known is not None and self._world.modes.delivers_unasked(known.encap):
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
                steps.create_task(self._keep(replace(entry, state=State.PRESENT)))
                if self._world.modes.delivers_unasked(network.encap):
                    await forwarded
                if tag is None or tag != self._ports.tag(entry, network):
                    steps.create_task(self._ports.attach(entry, network))
        except BaseExceptionGroup as group:
            raise _reason(group) from group
        return self._result(entry, record, network)

    async def _ask(self, entry: Entry, name: str) -> tuple[EndpointRecord, NetworkRecord]:
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
        await self._reconciler.caught_up(granted.revisions, POLICIES_KNOWN)
        record = granted.record
        return record, await self._reconciler.network(record.network, NETWORK_KNOWN)

    async def _link(self, entry: Entry) -> None:
        # a thread cannot be called back: the link would come after it was to be removed
        await unbroken(
            self._links.add_pod_link(
                PodLink(
                    host_name=ports.switch_name(entry.port),
                    ifname=entry.ifname,
                    netns_path=entry.netns,
                    mtu=self._mtus.of(Bridge(entry.bridge)),
                    tx_off=self._facts.tx_off,
                )
            )
        )

    async def _forward(self, entry: Entry, record: EndpointRecord) -> None:
        port = LocalPort(record=record, ofport=entry.port, number=entry.port)
        await self._reconciler.put_port(entry.key, port)

    async def _furnish(
        self,
        linked: asyncio.Task[None],
        entry: Entry,
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
        await self._links.passing(ports.switch_name(entry.port))
        if not network.gateway:
            await self._go_by_host(entry)

    async def _go_by_host(self, entry: Entry) -> None:
        """Give a pod a way by its host to everything but services (`driver.go: addPod`)."""
        await self._access.attach(entry, self._mtus.of(Bridge.VXLAN))
        if self._facts.services is not None:
            way = self._links.route_pod(entry.netns, entry.ifname, self._facts.services)
            await unbroken(way)

    def _result(self, entry: Entry, record: EndpointRecord, network: NetworkRecord) -> PodResult:
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
            host_ifname=ports.switch_name(entry.port),
        )

    async def _again(self, entry: Entry, name: str) -> PodResult | None:
        """Return the result of the ADD that made an endpoint; None if it no longer holds."""
        record, network = await self._ask(entry, name)
        port = self._world.endpoints.port(entry.key)
        if port is None or _identity(port.record) != _identity(record):
            return None
        return self._result(entry, record, network)

    # -- DEL -----------------------------------------------------------------------------------

    async def _take_away(self, entry: Entry) -> None:
        going = replace(entry, state=State.REMOVING)
        await self._journal.write(going)
        await self._remove(going)

    async def _undo(self, entry: Entry, reason: BaseException) -> None:
        going = replace(entry, state=State.REMOVING)
        try:
            await self._journal.write(going)
        except HostError as exc:  # an ADD the journal does not know, or as begun: nothing is lost
            log.warning("journal not written", extra=fields(endpoint=entry.key, error=exc))
        if self._removal.ended:
            return  # the next agent finds it in the journal
        await self._take_off(going)
        if isinstance(reason, MasterUnavailable):
            self._removal.schedule(going)  # nobody can release it now: the runtime need not wait
            return
        await self._removal.release(going)
        with suppress(ContivError):  # the caller has an error already, and the work goes on
            await self._removal.finished(entry.key, UNDONE)

    async def _remove(self, going: Entry) -> None:
        await self._take_off(going)
        await self._removal.release(going)

    async def _take_off(self, going: Entry) -> None:
        """Take an endpoint off the switch."""
        self._roster.put(going)
        try:
            async with asyncio.timeout(FLOWS_GONE):
                await self._reconciler.remove_port(going.key)
        except (ContivError, TimeoutError) as exc:
            log.warning("flows remain", extra=fields(endpoint=going.key, error=exc))
        self._roster.drop(going.key)

    def _forgotten(self, request: PodRequest) -> list[EndpointRecord]:
        """Return this host's records of the container that no journal entry stands for."""
        key = endpoint_key_of(request)
        record = self._world.endpoints.get(key)
        if record is None or record.homing_host != self._facts.label:
            return []
        return [] if self.stands_for(key) else [record]

    # -- common --------------------------------------------------------------------------------

    async def _keep(self, entry: Entry) -> None:
        self._roster.put(entry)
        await self._journal.write(entry)


def endpoint_key_of(request: PodRequest) -> EndpointKey:
    """Return the key under which netmaster keeps the endpoint a request speaks of."""
    return endpoint_key(network_id(request.network, request.tenant), request.container_id)


def _is_what(request: PodRequest, entry: Entry) -> bool:
    """Tell whether an endpoint that is there is what a request asks for."""
    there = entry.key, entry.netns, entry.ifname, entry.group or ""
    return there == (
        endpoint_key_of(request),
        request.netns,
        request.ifname,
        request.group or "",
    )


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
