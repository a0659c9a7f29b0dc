"""The steps of an ADD, run in parallel where they do not depend on each other.

In come the request and a journal entry for it; out comes the result for the runtime. First the
journal is written, then netmaster is asked for the endpoint and the veth pair made beside. Its
answer starts the flows (`netplugin.bridges.reconciler`) with the host ports
(`netplugin.pods.host_port_mappings.port_mappings`), and the configuration of the namespace
(`netplugin.kernel.netns`), which the OVS port follows (`netplugin.pods.pod_ports`). The
ADD is done when the port has its OpenFlow number, the switch has acknowledged the flows and the
namespace is configured, so that a pod's first packet is not lost (docs/notes/host.md §3).

What a failed step leaves is undone by `netplugin.pods.handler`.
"""

import asyncio
from dataclasses import replace
from typing import Final

from core.addresses import derived_mac
from core.errors import Conflict, MasterUnavailable, NotFound
from core.ids import group_key
from core.tasks import unbroken
from netplugin.cni.request import PodRequest
from netplugin.cni.results import PodResult
from netplugin.kernel.links.pod_links import PodLink
from netplugin.masters.address_blocks import HeldAddress
from netplugin.masters.master_api import Addresses, Granted, WantedEndpoint
from netplugin.pods.addressing import addresses_of, gateways_of, result_of
from netplugin.pods.claims import at_position, claim_of, with_addresses
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.host_port_mappings.port_mappings import PortMappings
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from netplugin.world.bridges.networks import BRIDGE_OF
from ofnet.world import Bridge
from state.records import Encap, EndpointRecord, NetworkRecord, NetworkType

LINKS_AHEAD: Final = 2
"""Links of pods without an address yet that are made at once."""


class PodAdd:
    """Carries out ADDs. One per agent."""

    def __init__(
        self,
        host: PodHost,
        mtus: PodMtus,
        pod_ports: PodPorts,
        host_interfaces: HostInterfaces,
        mappings: PortMappings,
    ) -> None:
        self._host = host
        self._mtus = mtus
        self._ports = pod_ports
        self._host_interfaces = host_interfaces
        self._mappings = mappings
        self._world = host.world
        self._reconciler = host.reconciler
        self._timed = host.stages.timed
        # Of many pods at once the first would wait for the links of the last.
        self._links_ahead = asyncio.Semaphore(LINKS_AHEAD)

    def new_entry(self, request: PodRequest) -> JournalEntry:
        """Return the journal entry of a new endpoint, with a free port number.

        It has its addresses already, and is a claim, if this host held some ahead (ADR 29). The
        caller puts it into the registry before anything else: every request for blocks names what
        is there.
        """
        known = self._world.networks.named(request.spec.network, request.spec.tenant)
        entry = JournalEntry(
            key=request.spec.key,
            spec=request.spec,
            port=self._ports.next_number(),
            bridge=Bridge.VXLAN if known is None else BRIDGE_OF[known.encap],
            state=EntryState.ADDING,
        )
        held = self._held_ahead(request, known)
        if held is None:
            return entry
        return replace(
            entry,
            name=request.pod_name or request.spec.container_id,
            ip_address=held.ipv4,
            ipv6_address=held.ipv6,
            claiming=True,
            block=held.token,
        )

    def _held_ahead(self, request: PodRequest, network: NetworkRecord | None) -> HeldAddress | None:
        """Return addresses that this host holds, for a pod that may have any of its network's."""
        # Two hosts that know neither of two pods cannot judge their packets. On a vxlan network
        # there is no way for such packets, on others there is.
        if network is None or network.encap is not Encap.VXLAN:
            return None
        if network.type is NetworkType.INFRA or _asked(request) != Addresses() or request.spec.keep:
            return None
        if not self._world.networks.on_bridge(network.id):
            return None
        if request.spec.group:
            group = self._world.endpoints.group(group_key(request.spec.group, request.spec.tenant))
            if group is None or group.network != network.name or group.ip_pool or group.exclude:
                return None
        return self._host.blocks.give(network.id)

    async def repeat(self, entry: JournalEntry, request: PodRequest) -> PodResult | None:
        """Return the result of the ADD that created an endpoint; None if it is no longer valid."""
        # netmaster is asked, not only the registry: it may have reclaimed the endpoint meanwhile
        # and granted another address, which the pod does not have.
        port = self._world.endpoints.port(entry.key)
        given = self._world.networks.named(entry.spec.network, entry.spec.tenant)
        if entry.block and entry.claiming and port is not None and given is not None:
            return self._result(entry, port.record, given)  # netmaster does not know it yet
        granted, network = await self._request_endpoint(entry, request)
        record = granted.record
        if entry.source:
            # Without a source it has its endpoint already, and will be connected.
            is_same = granted.source in {"", entry.source} and _has_addresses(entry, record)
            return self._result(entry, record, network) if is_same else None
        if port is None or granted.source or _identity(port.record) != _identity(record):
            return None
        if _not_granted(request, record):
            return None
        return self._result(entry, record, network)

    async def make(self, entry: JournalEntry, request: PodRequest) -> PodResult:
        """Create an endpoint; return when it forwards packets.

        Raises ContivError, the first of several failures, after all steps have ended.
        """
        # Journal first: from here on there may be a link, a port or an address to undo, and the
        # next agent knows that only from the journal, should this one be killed.
        await self._save(entry)
        try:
            return await self._make(entry, request)
        except BaseExceptionGroup as group:
            raise _first_failure(group) from group

    async def _make(self, entry: JournalEntry, request: PodRequest) -> PodResult:
        """Create an endpoint that is in the journal; several failures are one group."""
        granted, network = await self._grant_and_link(entry, request)
        record = granted.record
        entry = replace(entry, bridge=BRIDGE_OF[network.encap], source=granted.source)
        known_at = at_position(with_addresses(entry, record), granted.position)
        if granted.source:
            # Another pod has the addresses. This one has a link with nothing at its other end, and
            # may send and receive nothing, until the machine runs in it (`arrive`).
            await self._connect(entry, record, network)
            await self._save(replace(known_at, state=EntryState.PRESENT))
            return self._result(entry, record, network)
        async with asyncio.TaskGroup() as steps:
            linked = steps.create_task(self._connect(entry, record, network))
            configured = steps.create_task(self._configure(linked, entry, network))
            forwarded = steps.create_task(self._program_flows(entry, record))
            steps.create_task(self._journal_present(known_at, configured))
            # On bridged VLANs the switch delivers to ports that have no flows. There the flows come
            # before the port, or packets would pass that no policy has filtered.
            if self._world.forwarding.delivers_without_flows(network.encap):
                await forwarded
            steps.create_task(self._attach(linked, entry, network))
        if entry.block:
            self._check_lease()
        return self._result(entry, record, network)

    async def arrive(self, entry: JournalEntry) -> None:
        """Connect a pod, as its machine runs in it now, in place of the pod that it has left.

        Raises ContivError. All of it may be repeated: netmaster answers with the endpoint that it
        has made.
        """
        wanted = claim_of(entry, self._host.settings.label)
        granted, network = await self._granted(wanted)
        record = granted.record
        arrived = replace(at_position(with_addresses(entry, record), granted.position), source="")
        await self._put_port(arrived, record)
        # A port that an earlier attempt made is not made anew, which would interrupt the machine.
        if port_names.switch_name(entry.port) not in self._host.ovsdb.ports(arrived.bridge):
            await self._attach_port(arrived, network)
        await self._configure_access(arrived, network)
        # The entry goes last: until then the pod awaits its machine for this agent and the next
        # one, and what failed is done again. Nothing else would finish the pod's namespace.
        await self._save(arrived)
        await self._mappings.apply(arrived)

    async def _grant(
        self, entry: JournalEntry, request: PodRequest
    ) -> tuple[Granted, NetworkRecord]:
        """Request a new endpoint. Raises Conflict if it has not the addresses asked for.

        One with addresses that this host held ahead is made without netmaster.
        """
        if entry.block:
            network = await self._reconciler.records.network(
                entry.spec.network_id, self._host.settings.timing.network_known
            )
            return Granted(self._record_of(entry, network), {}), network
        granted, network = await self._request_endpoint(entry, request)
        if refused := _not_granted(request, granted.record):
            raise Conflict(
                f"{refused} was not granted to {entry.key}: network {network.id} has no such "
                "address, or netmaster is older than this agent"
            )
        return granted, network

    def _record_of(self, entry: JournalEntry, network: NetworkRecord) -> EndpointRecord:
        """Return the record that netmaster will make of an endpoint's claim."""
        group = self._ports.group(entry)
        return EndpointRecord(
            key=entry.key,
            network=network.id,
            endpoint_id=entry.spec.endpoint,
            service_name=entry.spec.group,
            group_id=group.group_id if group else 0,
            group_key=group.key if group else "",
            ip_address=entry.ip_address,
            ipv6_address=entry.ipv6_address,
            mac_address=derived_mac(entry.ip_address, entry.ipv6_address),
            homing_host=self._host.settings.label,
            intf_name="",
            vtep_ip="",
            labels=dict(entry.spec.labels) or None,
            container_id="",
            common_name=entry.name,
        )

    def _check_lease(self) -> None:
        """Raise MasterUnavailable if the lease ended while a pod was made from an address block."""
        # This process, or its machine, may have stood still for as long.
        if not self._host.blocks.usable:
            raise MasterUnavailable("the lease of this host's addresses ended, try again later")

    async def _request_endpoint(
        self, entry: JournalEntry, request: PodRequest
    ) -> tuple[Granted, NetworkRecord]:
        wanted = WantedEndpoint(
            host=self._host.settings.label,
            tenant=entry.spec.tenant,
            network=entry.spec.network,
            group=entry.spec.group or None,
            endpoint_id=entry.spec.endpoint,
            common_name=request.pod_name or request.spec.container_id,
            addresses=_asked(request),
            labels=entry.spec.labels,
            keep=entry.spec.keep,
            awaits_machine=request.spec.awaits_machine,
        )
        try:
            return await self._granted(wanted)
        except NotFound as exc:  # netmaster's text does not name what was not found
            spec = entry.spec
            group = f", group {spec.group}" if spec.group else ""
            raise NotFound(f"{exc}: tenant {spec.tenant}, network {spec.network}{group}") from exc

    async def _granted(self, wanted: WantedEndpoint) -> tuple[Granted, NetworkRecord]:
        # Cancelling must not abandon the request: it could reach netmaster after the release
        # that undoes this ADD, and the address would stay allocated without an endpoint.
        with self._timed("grant"):
            granted = await unbroken(self._host.master.create_endpoint(wanted))
        # Of any two pods, the host of the younger one has the record of the older one before the
        # younger one may send. So at least one of both hosts can apply the policies between them.
        with self._timed("records"):
            await self._reconciler.records.caught_up(
                granted.revisions, granted.history, self._host.settings.timing.policies_known
            )
            network = await self._reconciler.records.network(
                granted.record.network, self._host.settings.timing.network_known
            )
        return granted, network

    async def _grant_and_link(
        self, entry: JournalEntry, request: PodRequest
    ) -> tuple[Granted, NetworkRecord]:
        """Request a new endpoint (`_grant`), and create the pod's link: beside it, if possible."""
        # The kernel takes as long for a link as netmaster for addresses. Its MTU is that of the
        # bridge, which is known of a network that is known.
        known = self._world.networks.named(entry.spec.network, entry.spec.tenant)
        on_bridge = known is not None and BRIDGE_OF[known.encap] == entry.bridge
        early = on_bridge and not self._links_ahead.locked()
        async with asyncio.TaskGroup() as steps:
            if early:
                steps.create_task(self._add_link_ahead(entry))
            granted, network = await self._grant(entry, request)
        bridge = BRIDGE_OF[network.encap]
        if not early:
            await self._add_link(replace(entry, bridge=bridge))
        elif bridge != entry.bridge:
            raise Conflict(f"network {network.id} was recreated meanwhile, try again")
        return granted, network

    async def _add_link_ahead(self, entry: JournalEntry) -> None:
        async with self._links_ahead:
            await self._add_link(entry)

    async def _add_link(self, entry: JournalEntry) -> None:
        # A thread cannot be cancelled: an abandoned one would create the link after the undo has
        # removed it.
        link = PodLink(
            host_name=port_names.switch_name(entry.port),
            ifname=container_end(entry),
            netns_path=entry.netns,
            mtu=self._mtus.of(Bridge(entry.bridge)),
            tx_off=self._host.settings.tx_off,
            rate=entry.spec.receive_limit.rate,
            burst=entry.spec.receive_limit.burst,
        )
        with self._timed("link"):
            await unbroken(self._host.links.add_pod_link(link))

    async def _connect(
        self, entry: JournalEntry, record: EndpointRecord, network: NetworkRecord
    ) -> None:
        """Configure the pod's end of its link; return when it passes packets."""
        # The link is all that it will be before its port is made: Open vSwitch goes through all of
        # its ports at each event of a link, and by the event of a carrier once more.
        if entry.spec.handed_over:
            # The engine moves, names and addresses the link, some time after the answer.
            return
        with self._timed("namespace"):
            await self._configure_namespace(entry, record, network)

    async def _attach(
        self, linked: asyncio.Task[None], entry: JournalEntry, network: NetworkRecord
    ) -> None:
        await linked
        await self._attach_port(entry, network)

    async def _attach_port(self, entry: JournalEntry, network: NetworkRecord) -> None:
        with self._timed("port"):
            await self._ports.attach(entry, network)
        # On bridged VLANs the flows came first. A switch learns nothing of a port that it has not.
        # The answer waits for it: until then, what is sent to the pod goes where its address was.
        await self._reconciler.announce(BRIDGE_OF[network.encap], entry.key)

    async def _program_flows(self, entry: JournalEntry, record: EndpointRecord) -> None:
        await self._put_port(entry, record)
        # With its port in the World the host has a way to the pod.
        await self._mappings.apply(entry)

    async def _put_port(self, entry: JournalEntry, record: EndpointRecord) -> None:
        port = self._ports.local(entry, record, entry.port)
        with self._timed("flows"):
            await self._reconciler.put_port(entry.key, port)

    async def _configure_namespace(
        self, entry: JournalEntry, record: EndpointRecord, network: NetworkRecord
    ) -> None:
        gateways = gateways_of(record, network)
        await unbroken(
            self._host.links.configure_pod(
                entry.netns,
                entry.spec.ifname,
                record.mac_address,
                [one for one in addresses_of(record, network) if one is not None],
                [g for g in gateways if g is not None and entry.spec.default_route],
            )
        )
        await self._host.links.passing(port_names.switch_name(entry.port))

    async def _configure(
        self, linked: asyncio.Task[None], entry: JournalEntry, network: NetworkRecord
    ) -> None:
        await linked
        await self._configure_access(entry, network)

    async def _configure_access(self, entry: JournalEntry, network: NetworkRecord) -> None:
        """Route a pod by its host to everything but services, if it is (`driver.go: addPod`)."""
        if entry.spec.handed_over or not entry.spec.default_route or not network.by_host:
            return
        await self._host_interfaces.attach(entry, self._mtus.of(Bridge.VXLAN))
        if self._host.settings.service_subnet is not None:
            route = self._host.links.route_pod(
                entry.netns, entry.spec.ifname, self._host.settings.service_subnet
            )
            await unbroken(route)

    def _result(
        self, entry: JournalEntry, record: EndpointRecord, network: NetworkRecord
    ) -> PodResult:
        return result_of(entry, record, network, self._mtus.of(Bridge(entry.bridge)))

    # PRESENT says that the namespace is configured: a repeated ADD of such an entry is answered at
    # once, and the next agent keeps it. Ports and flows are made good by every agent that starts, a
    # namespace by none. So an agent that dies earlier leaves ADDING, which the next one tears down.
    # The slow part, the write to disk, goes on beside the configuration; the rename follows it. If
    # another step fails then, the entry is rewritten as REMOVING.

    async def _journal_present(self, entry: JournalEntry, configured: asyncio.Task[None]) -> None:
        present = replace(entry, state=EntryState.PRESENT)
        self._host.registry.put(present)
        with self._timed("journal present"):
            await self._host.journal.stage(present)
        await configured
        await self._host.journal.commit(present.key)

    async def _save(self, entry: JournalEntry) -> None:
        self._host.registry.put(entry)
        with self._timed("journal adding"):
            await self._host.journal.write(entry)


def container_end(entry: JournalEntry) -> str:
    """Return the name with which the pod's end of a link is created."""
    return port_names.container_name(entry.port) if entry.spec.handed_over else entry.spec.ifname


def _asked(request: PodRequest) -> Addresses:
    return Addresses(
        ipv4=str(request.ipv4) if request.ipv4 else "",
        ipv6=str(request.ipv6) if request.ipv6 else "",
        mac=request.spec.mac,
    )


def _not_granted(request: PodRequest, record: EndpointRecord) -> str:
    """Return the first address asked for that an endpoint does not have; "" if there is none."""
    granted = Addresses(record.ip_address, record.ipv6_address, record.mac_address.lower())
    pairs = zip(_asked(request), granted, strict=True)
    return next((asked for asked, given in pairs if asked not in {"", given}), "")


def _has_addresses(entry: JournalEntry, record: EndpointRecord) -> bool:
    return (entry.ip_address, entry.ipv6_address) == (record.ip_address, record.ipv6_address)


def _identity(record: EndpointRecord) -> tuple[str, str, str]:
    return record.mac_address, record.ip_address, record.ipv6_address


def _first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure of parallel steps; the others are cancelled because of it."""
    first = group.exceptions[0]
    return _first_failure(first) if isinstance(first, BaseExceptionGroup) else first
