"""Keeps the host ports of this host's pods: what a runtime asks for by `portMappings`.

In come the endpoints of this host (`netplugin.pods.registry.endpoint_registry`), whose journal
entries have the mappings, and the addresses by which the host reaches them (the World); out go the
chains of `netplugin.pods.host_port_mappings.mapping_rules`. An ADD sets them before it is answered,
a DEL before the endpoint's address is released; a loop corrects what others changed.
"""

# A host port leads to a pod only as long as the pod has a port in the World: what is cut off from
# the network (an endpoint that netmaster reclaimed) may have lost its address to another pod. For
# the same reason an address that several tenants' pods have on this host counts only for the pod
# that the host's route leads to.

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network

from core.errors import Conflict, Invalid
from core.tasks import unbroken
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.bridges.services.service_access import RouteLocalnet
from netplugin.bridges.services.stale_datagrams import StaleDatagrams
from netplugin.cni.port_mappings import PortMapping
from netplugin.kernel.firewall.families import Failures, each_family, raise_any
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.firewall.iptables import Iptables
from netplugin.kernel.firewall.iptables_chains import OwnChains
from netplugin.pods.host_port_mappings import mapping_rules
from netplugin.pods.host_port_mappings.mapping_rules import Address, MappedPod
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingTools:
    """What rules are made by, and the host's address; see `ServiceAccess` for `route_localnet`.

    `in_use` tells whether a program of the host has a port (`netplugin.kernel.port_probe`).
    """

    iptables: Iptables
    chains: OwnChains
    datagrams: StaleDatagrams
    route_localnet: RouteLocalnet
    in_use: Callable[[str, Address, int], bool]
    address: IPv4Address
    firewall: FirewallWatch


class PortMappings:
    """The host ports of pods. One per agent."""

    def __init__(self, host: PodHost, tools: MappingTools, *, interval: float) -> None:
        self._registry = host.registry
        self._world = host.world
        self._reconciler = host.reconciler
        self._tools = tools
        self._interval = interval
        self._lock = asyncio.Lock()
        self._applied: tuple[MappedPod, ...] | None = None
        self._known_before: set[int] = set()

    def claim(self, entry: JournalEntry) -> None:
        """Return if all host ports of a new endpoint are free.

        They are the endpoint's as soon as it is in the registry. Raises Conflict, or Invalid where
        this host cannot have host ports.
        """
        if entry.spec.mappings and self._world.forwarding.private_subnet is None:
            raise Invalid(
                "host ports need the cluster's private network: set it by netctl global set "
                "--private-subnet, or leave hostPort out"
            )
        for mine in entry.spec.mappings:
            if self._world.management.known.has_port(mine.protocol, mine.host_port):
                raise Conflict(
                    f"host port {mine} is one of this cluster's management: use another hostPort"
                )
            if (address := self._taken_at(mine)) is not None:
                raise Conflict(
                    f"host port {mine} is taken by a program of this host, which listens at "
                    f"{address}: use another hostPort, or stop that program first"
                )
        for other in self._registry.entries():
            if other.key == entry.key or other.state is EntryState.REMOVING:
                continue
            for mine in entry.spec.mappings:
                for theirs in other.spec.mappings:
                    if mine.collides(theirs):
                        raise Conflict(
                            f"host port {mine} is taken by endpoint {other.key}: use another "
                            "hostPort, or delete that pod first"
                        )

    def _taken_at(self, mapping: PortMapping) -> Address | None:
        """Return an address of the mapping where a program of the host listens, None for none.

        What listens on the loopback alone, as name services do, is in nobody's way from outside.
        """
        for block in mapping.blocks:
            address = block.network_address if block.prefixlen else self._everywhere(block)
            if address is None or address.is_loopback:
                continue
            if self._tools.in_use(mapping.protocol, address, mapping.host_port):
                return address
        return None

    def _everywhere(self, block: IPv4Network | IPv6Network) -> Address | None:
        """Return an address that stands for all of the host's, where one of the family is known."""
        return self._tools.address if block.version == 4 else None

    async def apply(self, entry: JournalEntry) -> None:
        """Return when the host ports of an endpoint lead to it, or to nothing if it is removed.

        Raises HostError; Conflict if the host cannot reach the pod at its addresses.
        """
        if not entry.spec.mappings:
            return
        failures: Failures = {}
        async with self._lock:
            # Calls that waited find their work done by the first of them.
            if (wanted := self._wanted()) != self._applied:
                # An abandoned thread could set older rules after a later call's newer ones.
                failures = await unbroken(self._set(wanted))
        if self._is_mapped(entry):
            self._check_reachable(entry)
            # One family of two is enough: what the host lacks is a fault of the host's, not the
            # pod's (the loop shows it).
            needed = _versions(entry) & {one.version for one in self._reached(entry)}
            if needed and needed <= failures.keys():
                raise_any({version: failures[version] for version in sorted(needed)})
        else:
            raise_any(failures)

    async def run(self) -> None:
        """Reconcile the rules, for ever."""
        await ReconcileLoop(
            name="host ports",
            converge=self.converge,
            observe=self._wanted,
            triggers=(
                self._reconciler.ports_changed,
                self._reconciler.records.records_changed,
                self._reconciler.records.management_changed,
            ),
            interval=self._interval,
            anew=(self._tools.firewall.lost,),
        ).run()

    async def converge(self) -> object:
        """Set all rules, once; return what they were made for. Raises HostError."""
        async with self._lock:
            wanted = self._wanted()
            if wanted or wanted != self._applied:
                raise_any(await unbroken(self._set(wanted)))
        return wanted

    async def faults(self, entry: JournalEntry) -> list[str]:
        """Return what keeps an endpoint's host ports from leading to it. Raises HostError."""
        pod = self._mapped(entry)
        left = pod.mappings if pod is not None else ()
        refused = [
            f"host port {one} does not lead to the pod: it is of this cluster's management"
            for one in entry.spec.mappings
            if one not in left and self._refused(one, self._world.endpoints.routed_of(entry.key))
        ]
        if pod is None:
            return refused
        versions = sorted({one.version for one in pod.addresses})
        chains, table = self._tools.chains, mapping_rules.TABLE
        found = refused

        async def look(version: int) -> None:
            rules = {version: await chains.rules(version, table, mapping_rules.PORTS)}
            there = await self._tools.iptables.found((version,))
            hooks = map(str, mapping_rules.hooks(version))
            found.extend(mapping_rules.missing(pod, rules))
            found.extend(f"rule {hook} is missing" for hook in hooks if hook not in there)

        failures = await each_family(look, versions)
        if failures.keys() == set(versions):
            raise_any(failures)
        return found

    async def _set(self, wanted: tuple[MappedPod, ...]) -> Failures:
        """Set the rules of both families; return what failed."""
        self._applied = None

        async def keep(version: int) -> None:
            made = self._chains(version, wanted)
            if made:
                await self._remember(version)
                await self._tools.chains.replace(version, {mapping_rules.TABLE: made})
            hooks = mapping_rules.hooks(version) if made else ()
            await self._tools.iptables.keep(hooks, (version,))
            if not made:
                await self._tools.chains.remove(mapping_rules.TABLES, (version,))
            # After the guards: until these are there, pods would reach what listens on the
            # loopback.
            for link in port_names.HOST_LINKS if made and version == 4 else ():
                await self._tools.route_localnet(link)

        failures = await each_family(keep)
        await self._tools.datagrams.follow("host ports", mapping_rules.ways(wanted))
        if not failures:
            self._applied = wanted
        return failures

    async def _remember(self, version: int) -> None:
        """Note what the rules of an earlier run lead from, before they are replaced."""
        if version not in self._known_before:
            chains, table = self._tools.chains, mapping_rules.TABLE
            found = await chains.rules(version, table, mapping_rules.PORTS)
            self._tools.datagrams.remember(found)
            self._known_before.add(version)

    def _chains(self, version: int, wanted: tuple[MappedPod, ...]) -> dict[str, list[str]]:
        return mapping_rules.chains(version, wanted, self._tools.address)

    def _wanted(self) -> tuple[MappedPod, ...]:
        pods = tuple(pod for entry in self._registry.entries() if (pod := self._mapped(entry)))
        return tuple(sorted(pods, key=lambda pod: pod.key))

    def _mapped(self, entry: JournalEntry) -> MappedPod | None:
        if not self._is_mapped(entry):
            return None
        addresses = self._world.endpoints.routed_of(entry.key)
        mappings = tuple(one for one in entry.spec.mappings if not self._refused(one, addresses))
        if not addresses or not mappings:
            return None
        return MappedPod(
            key=entry.key,
            addresses=tuple(sorted(addresses, key=str)),
            mappings=mappings,
        )

    def _refused(self, mapping: PortMapping, addresses: Iterable[Address]) -> bool:
        # It may have become so since the ADD: masters come with ports of their own.
        management = self._world.management
        return mapping_rules.refused(mapping, addresses, management.known, management.closed)

    def _is_mapped(self, entry: JournalEntry) -> bool:
        here = self._registry.get(entry.key)
        return (
            bool(entry.spec.mappings) and here is not None and here.state is not EntryState.REMOVING
        )

    def _reached(self, entry: JournalEntry) -> Collection[Address]:
        return self._world.endpoints.routed_of(entry.key)

    def _check_reachable(self, entry: JournalEntry) -> None:
        reached = {one.version for one in self._reached(entry)}
        for mapping in entry.spec.mappings:
            if not reached & {block.version for block in mapping.blocks}:
                raise Conflict(
                    f"host port {mapping} cannot lead to endpoint {entry.key}: the pod has no "
                    "such address, or the host reaches another tenant's pod by it"
                )


def _versions(entry: JournalEntry) -> set[int]:
    return {block.version for mapping in entry.spec.mappings for block in mapping.blocks}
