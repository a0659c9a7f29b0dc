"""Keeps what this host needs for itself from the routes to pods: rules of routing, and exceptions.

In come the settings, and the kernel's answers; out go the addresses that this host needs, for
`netplugin.world.underlay`, and in the kernel the rules of the agent's routing table with an
exception for each address of the underlay (`netplugin.kernel.routes.route_table`, ADR 33).
`prepare` works before the store is asked: a host that an earlier release cut off comes back by it.
What the store says follows by `run`. Subnets of pods that the host itself routes elsewhere are
named.
"""

import asyncio
import logging
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
    Set,
)
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core import keys
from core.addresses import mac_text
from core.change_notifier import ChangeNotifier
from core.errors import ContivError, Invalid
from core.logs import fields
from netplugin.bridges.host.host_ports import InterfaceContext, is_host_port
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.dns.upstream import RESOLV_CONF, servers_of_host
from netplugin.kernel.netlink.requests import Address, Interface, Network
from netplugin.kernel.netns import KernelLinks
from netplugin.settings import AgentSettings
from netplugin.world import underlay
from netplugin.world.bridges import port_names
from netplugin.world.underlay import HostUnderlay
from objdb.api import Backend, Entry
from state import codec
from state.underlay import AddressKind, UnderlayAddress, of_master, usable

if TYPE_CHECKING:
    from netplugin.world.builder import WorldBuilder

log = logging.getLogger(__name__)

THIS_HOST: Final = "this host"
_STORE: Final = "store"
_NEXT_HOPS: Final = "next hops"
_NAME_SERVERS: Final = "name servers"
_API_SERVERS: Final = "API servers"
"""Sources of addresses."""
_OUTSIDE: Final = (IPv4Address("192.0.2.1"), IPv6Address("2001:db8::1"))
"""Addresses that nobody has (RFC 5737, RFC 3849): the default route leads to them."""
_LOOKED_AT: Final = 16
"""Addresses at the beginning of a subnet, of which one is asked for that no exception has."""


class UnderlayRoutes:
    """The rules and exceptions of this host. One per agent.

    `servers` are the hosts of API servers, by name or address. `resolve` returns the addresses of
    a host; `resolv_conf` names its name servers.
    """

    def __init__(
        self,
        settings: AgentSettings,
        links: KernelLinks,
        *,
        resolve: Callable[[str], Awaitable[Set[str]]],
        servers: Sequence[str] = (),
        resolv_conf: Path = RESOLV_CONF,
    ) -> None:
        self._changes = ChangeNotifier()
        self.known = HostUnderlay(settings.host)
        self.known.observe(self._changes.notify)
        self._settings = settings
        self._links = links
        self._resolve = resolve
        self._servers = servers
        self._resolv_conf = resolv_conf
        self._set: frozenset[Address] | None = None
        """The exceptions that the kernel has, as far as this agent set them; None: unknown."""
        self._setting = asyncio.Lock()
        self._world: WorldBuilder | None = None
        own = [
            *((AddressKind.TUNNEL, one) for one in settings.vtep_ips),
            (AddressKind.CONTROL, settings.ctrl_ip),
        ]
        self.known.set_needed(
            THIS_HOST, (UnderlayAddress(one, kind, THIS_HOST) for kind, one in own)
        )

    def changed(self) -> asyncio.Event:
        """Return the event of the next change of what is known: take it, read, then wait for it."""
        return self._changes.next

    async def prepare(self) -> None:
        """Except what is known without the store; undo what earlier releases set past that.

        What fails is logged, and done by `run`.
        """
        try:
            await self._look()
            await self._links.ensure_rules(self._settings.pod_prefixes)
            await self._links.ensure_exceptions(self.known.spared, only=False)
            if moved := await self._links.adopt_routes():
                log.info("routes moved to the agent's own table", extra=fields(count=moved))
            for address in await self._links.drop_addresses(self._is_takers):
                log.warning("address removed, the underlay needs it", extra=fields(address=address))
        except ContivError as exc:
            log.warning("underlay not kept from routes to pods yet", extra=fields(error=exc))

    async def start(self, store: Backend) -> None:
        """Except what the store says of hosts, which has been read, and of masters."""
        try:
            found = await store.snapshot(keys.SERVICES + keys.SERVICE_NETMASTER)
            self.known.set_needed(underlay.MASTERS, _of_masters(found.entries.values()))
            await self.converge()
        except (
            ContivError
        ) as exc:  # `run` retries, `netplugin.bridges.guards.pod_guard` has the masters
            log.warning("underlay not kept from routes to pods yet", extra=fields(error=exc))

    async def run(self, context: InterfaceContext) -> None:
        """Keep rules and exceptions as they should be, for ever.

        Before the World is complete, no host is known to be gone, and no exception is removed.
        """
        self._world = context.world
        ports = context.host_ports

        async def converge() -> object:
            known, routed = await self.converge(), ports.subnets()
            held = {ip_address(one) for one in await self._links.own_addresses()}
            asked = {one: str(one) for one in ports.pods()} | self._first_of(routed, held)
            ways = await self._links.ways(list(asked))
            away = (
                (asked[one], link)
                for one, (link, _) in ways.items()
                if not is_host_port(context.ovsdb, link)
            )
            context.board.set_faults("routes to pods", underlay.elsewhere(away))
            return known, routed

        await ReconcileLoop(
            name="underlay",
            converge=converge,
            observe=lambda: (self._observe(), ports.subnets()),
            triggers=(self.changed, ports.subnets_changed),
            interval=context.interval,
            anew=(context.watches.routes.lost,),
        ).run()

    def _observe(self) -> object:
        return self.known.spared, self._all_known()

    def _all_known(self) -> bool:
        complete = self._world is not None and self._world.complete
        return complete and self.known.knows(underlay.MASTERS)

    async def converge(self) -> object:
        """Set rules and exceptions once; return what `_observe` then returns. Raises HostError."""
        await self._look()
        observed = self._observe()
        await self._links.ensure_rules(self._settings.pod_prefixes)
        async with self._setting:
            if self.known.spared == self._set:  # what others removed is not known
                self._set = None
        await self.settle()
        return observed

    async def settle(self) -> None:
        """Set the exceptions that are known now, unless they are set. Raises HostError.

        No route is set before: it could take an address that has no exception yet.
        """
        async with self._setting:
            wanted, only = self.known.spared, self._all_known()
            held, self._set = self._set, None
            if held is None:
                await self._links.ensure_exceptions(wanted, only=only)
            elif held != wanted:
                gone = held - wanted if only else frozenset[Address]()
                await self._links.change_exceptions(gone, wanted - held)
                wanted |= held - wanted - gone
            self._set = wanted

    async def _look(self) -> None:
        """Set what this host needs, by its settings and its own routing. Raises HostError."""
        hosts = {member.rpartition(":")[0].strip("[]") for member in self._settings.store.members}
        await self._set_hosts(_STORE, hosts, AddressKind.STORE)
        await self._set_hosts(_API_SERVERS, self._servers, AddressKind.FURTHER)
        servers = map(str, servers_of_host(self._resolv_conf))
        self.known.set_others(_NAME_SERVERS, _named(servers, AddressKind.FURTHER))
        asked = [*sorted(self.known.spared, key=lambda one: (one.version, int(one))), *_OUTSIDE]
        ways = (await self._links.ways(asked)).values()
        hops = {str(via) for link, via in ways if via is not None and not _is_agents(link)}
        self.known.set_needed(_NEXT_HOPS, _named(sorted(hops), AddressKind.NEXT_HOP))

    async def _set_hosts(self, source: str, hosts: Collection[str], kind: AddressKind) -> None:
        found: set[str] = set()
        for host in hosts:
            found |= await self._resolve(host)
        if found or not hosts:  # a name that cannot be resolved now has the addresses it had
            named = _named(sorted(found), kind)
            (self.known.set_needed if kind is AddressKind.STORE else self.known.set_others)(
                source, named
            )

    def _is_takers(self, held: Interface, mac: str) -> bool:
        """Tell whether an address is that of an infra network, and takes one of the underlay.

        Interfaces on infra networks have the MAC address that goes with their address.
        """
        return mac == mac_text(int(held.ip)) and self.known.taken([held]) is not None

    def _first_of(self, subnets: Iterable[Network], held: Set[Address]) -> dict[Address, str]:
        """Return subnets, each by an address near its beginning that no exception has.

        Nor is it one of the addresses that this host holds, of BGP for one.
        """
        taken = self.known.spared | held
        found: dict[Address, str] = {}
        for subnet in subnets:
            first = (subnet[number] for number in range(1, min(subnet.num_addresses, _LOOKED_AT)))
            free = (one for one in first if one not in taken)
            if (address := next(free, None)) is not None:
                found[address] = str(subnet)
        return found


def _of_masters(entries: Iterable[Entry]) -> Iterator[UnderlayAddress]:
    for entry in entries:
        with suppress(Invalid):  # `netplugin.masters.control` logs it
            yield from of_master(codec.decode_service(entry.key, entry.value))


def _named(texts: Iterable[str], kind: AddressKind) -> Iterator[UnderlayAddress]:
    for text in texts:
        if (address := usable(text)) is not None:
            yield UnderlayAddress(address, kind, THIS_HOST)


def _is_agents(link: str) -> bool:
    own = {port_names.HOST_PORT, port_names.VLAN_HOST_PORT, port_names.ROUTER_PORT}
    return link in own or port_names.pod_number(link) is not None
