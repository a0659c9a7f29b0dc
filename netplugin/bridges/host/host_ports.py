"""Interfaces of the host itself on the agent's bridges: `contivh0`, `inb01`, infra networks.

In comes the desired interface; out come an internal port of Open vSwitch, its link with MAC,
addresses and routes, and its OpenFlow number. Repeating it changes nothing. The interfaces are
decided by `netplugin.bridges.host.host_access`, `netplugin.bridges.host.infra` and
`netplugin.bgp.host_bgp`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Protocol

from core.change_notifier import ChangeNotifier
from core.errors import Conflict, HostError
from core.logs import fields
from core.retry import FaultBoard
from netplugin.bridges.host.host_routes import PodRoutes, Subnet
from netplugin.bridges.record_events import RecordEvents
from netplugin.kernel.host_watches import HostWatches
from netplugin.kernel.netlink.requests import Address, Interface
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.ovsdb import Ovsdb, PortRow, PortSpec
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from netplugin.world.underlay import HostUnderlay
from ofnet.world import Bridge

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInterface:
    """The desired interface; `owner` is its endpoint id in the port's external ids."""

    bridge: Bridge
    name: str
    owner: str
    tag: int
    ofport: int
    mac: str
    addresses: Sequence[Interface]
    routes: Sequence[HostRoute]
    pods: PodRoutes | None = None
    """The routes to this host's pods, which are set besides `routes`."""
    neighbours: Mapping[Address, str] = field(default_factory=dict)
    """MAC addresses of the next hops of routes."""
    source6: IPv6Address | None = None
    """An address for the routes that name it; the kernel chooses it for no other connection."""
    loose: bool = False
    """Whether packets come in by it whose answers leave by another interface."""

    def all_routes(self) -> list[HostRoute]:
        """Return all routes by the interface."""
        return [*self.routes, *(() if self.pods is None else self.pods.all())]

    def spec(self) -> PortSpec:
        """Return the port of the interface in Open vSwitch."""
        return PortSpec(
            name=self.name,
            type="internal",
            ofport_request=self.ofport,
            tag=self.tag,
            external_ids={port_names.ENDPOINT_ID: self.owner},
        )

    def matches(self, row: PortRow) -> bool:
        """Return whether a port is as desired, whichever OpenFlow number the switch gave it."""
        spec = self.spec()
        actual = row.bridge, row.type, row.tag, dict(row.external_ids)
        return actual == (self.bridge, spec.type, spec.tag, spec.external_ids)


class HostPorts:
    """Creates interfaces of the host. One per agent."""

    def __init__(self, ovsdb: Ovsdb, links: KernelLinks, underlay: HostUnderlay) -> None:
        self._ovsdb = ovsdb
        self._links = links
        self._underlay = underlay
        self._routed: dict[str, HostInterface] = {}
        """By name: whose routes the kernel has, as far as this agent set them."""
        self._routing = asyncio.Lock()
        self._subnets_changed = ChangeNotifier()

    async def ensure(self, current: Callable[[], HostInterface]) -> PortRow:
        """Create or correct the interface; return its port, which has its OpenFlow number.

        `current` returns the interface as it is to be, and is asked anew when its routes are set.
        Raises Conflict if another interface has its name, or the underlay needs an address of it,
        and SwitchUnavailable, SwitchRefused or HostError if it cannot be created now.
        """
        wanted = current()
        if taken := self._underlay.taken(wanted.addresses):
            await self.remove(wanted)
            raise Conflict(f"interface {wanted.name} would take {taken}, which the underlay needs")
        row = self._ovsdb.ports().get(wanted.name)
        if row is None or not wanted.matches(row):
            await self._add(wanted, row)
        row = await self._ready(wanted.name)
        if wanted.name not in await self._links.links():
            # The link was deleted by hand, which ovs-vswitchd does not notice. Nor would it notice
            # a port that is deleted and added in one transaction. So the port is deleted here, and
            # the caller's next attempt adds it again.
            await self._ovsdb.delete_port(wanted.bridge, wanted.name)
            raise HostError(f"link {wanted.name} is missing, its port will be recreated")
        await self._links.configure_host_link(wanted.name, wanted.mac, wanted.addresses)
        if wanted.loose:
            await self._links.loosen(wanted.name)
        async with self._routing:
            await self._set_routes(current())
        return row

    async def keep_loose(self) -> None:
        """Have the interfaces that must be loose be so, whoever changed that. Raises HostError."""
        for one in [one for one in self._routed.values() if one.loose]:
            if await self._links.loosen(one.name):
                log.warning(
                    "somebody made a link drop what comes by another way, set right again",
                    extra=fields(port=one.name, setting=f"net.ipv4.conf.{one.name}.rp_filter"),
                )

    async def has_ipv6(self, name: str) -> bool:
        """Return whether an interface may have IPv6 on this host. Raises HostError."""
        return await self._links.has_ipv6(name)

    async def remove(self, wanted: HostInterface) -> None:
        """Remove the interface if there is one, and its routes with it."""
        row = self._ovsdb.ports().get(wanted.name)
        self._routed.pop(wanted.name, None)
        if row is not None and row.external_ids.get(port_names.ENDPOINT_ID) == wanted.owner:
            await self._ovsdb.delete_port(row.bridge, row.name)
            log.info("host interface removed", extra=fields(port=row.name))

    def subnets_changed(self) -> asyncio.Event:
        """Return the event that the next change of `subnets` sets."""
        return self._subnets_changed.next

    def subnets(self) -> list[Subnet]:
        """Return the subnets of pods to which the kernel has routes, as far as this agent knows."""
        return [
            route.subnet
            for one in self._routed.values()
            for route in one.routes
            if route.subnet.prefixlen < route.subnet.max_prefixlen
        ]

    def pods(self) -> list[Address]:
        """Return the addresses of this host's pods to which the kernel has routes, likewise."""
        routed = (one.pods for one in self._routed.values() if one.pods is not None)
        return [address for pods in routed for address in pods.addresses]

    # Several tasks set the routes of one interface. Each asks what they are to be while no other
    # task sets any: what it had read before would undo what another has set meanwhile, until the
    # next look at all of them, a minute later.

    async def follow(self, current: Callable[[], HostInterface]) -> None:
        """Change the routes by an interface as they changed since they were set. Raises HostError.

        What others changed meanwhile stays until the next `ensure`.
        """
        # To read all routes takes a millisecond for every other pod, whenever one comes or goes;
        # to compare all of them with those before, some microseconds.
        async with self._routing:
            wanted = current()
            before = self._routed.pop(wanted.name, None)
            if before is None or not _comparable(before, wanted):
                await self._set_routes(wanted)
                return
            gone, new = _differing(before, wanted)
            if gone or new:
                await self._links.change_routes(wanted.name, gone, new)
            self._note(wanted, before)

    async def _set_routes(self, wanted: HostInterface) -> None:
        before = self._routed.pop(wanted.name, None)
        if wanted.source6 is not None:
            await self._links.ensure_source(wanted.name, wanted.source6)
        if wanted.neighbours:
            await self._links.ensure_neighbours(wanted.name, wanted.neighbours)
        await self._links.ensure_routes(wanted.name, wanted.all_routes())
        self._note(wanted, before)

    def _note(self, wanted: HostInterface, before: HostInterface | None) -> None:
        self._routed[wanted.name] = wanted
        if before is None or before.routes != wanted.routes:
            self._subnets_changed.notify()

    async def _ready(self, name: str) -> PortRow:
        row = self._ovsdb.ports().get(name)
        if row is None or row.ofport is None or row.ofport <= 0:
            await self._ovsdb.wait_ofport(name)
            row = self._ovsdb.ports()[name]
        return row

    async def _add(self, wanted: HostInterface, row: PortRow | None) -> None:
        # An interface that this agent did not create belongs to the administrator.
        if row is None:
            foreign = wanted.name in await self._links.links()
        else:
            marked = row.external_ids.get(port_names.ENDPOINT_ID)
            foreign = marked != wanted.owner and not _is_originals_router(row, wanted)
        if foreign:
            raise Conflict(f"interface {wanted.name} cannot be created: the name is in use")
        await self._ovsdb.add_port(wanted.bridge, wanted.spec())
        log.info("host interface added", extra=fields(port=wanted.name))


def _comparable(before: HostInterface, wanted: HostInterface) -> bool:
    """Return whether an interface differs at most in its routes, by the same next hops."""
    hops = (before.neighbours, before.source6) == (wanted.neighbours, wanted.source6)
    return hops and _ends(before.pods) == _ends(wanted.pods)


def _ends(pods: PodRoutes | None) -> object:
    return None if pods is None else (pods.private, pods.source)


def _differing(
    before: HostInterface, wanted: HostInterface
) -> tuple[list[HostRoute], list[HostRoute]]:
    """Return the routes that are gone and those that are new, of two comparable interfaces."""
    gone: list[HostRoute] = []
    new: list[HostRoute] = []
    if before.routes != wanted.routes:
        gone += set(before.routes) - set(wanted.routes)
        new += set(wanted.routes) - set(before.routes)
    if before.pods is not None and wanted.pods is not None:
        gone += wanted.pods.to(before.pods.addresses - wanted.pods.addresses)
        new += wanted.pods.to(wanted.pods.addresses - before.pods.addresses)
    return gone, new


def _is_originals_router(row: PortRow, wanted: HostInterface) -> bool:
    """Return whether a port is the one for BGP that the original made, which bears no mark."""
    return (row.name, row.bridge, row.type, dict(row.external_ids)) == (
        port_names.ROUTER_PORT,
        wanted.bridge,
        "internal",
        {},
    )


def is_host_port(ovsdb: Ovsdb, link: str) -> bool:
    """Return whether a link is one of the host's own interfaces on the agent's bridges."""
    others = port_names.pod_number(link) is not None or port_names.is_name_port(link)
    return not others and any(link in ovsdb.ports(bridge) for bridge in Bridge)


class UnderlayExceptions(Protocol):
    """The addresses of the underlay, which no route to pods may take."""

    def changed(self) -> asyncio.Event:
        """Return the event that the next change of the addresses sets."""
        ...

    async def settle(self) -> None:
        """Except the addresses that are known now, before any route is set. Raises HostError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceContext:
    """What the loops that keep interfaces of the host work with.

    `interval` is the number of seconds after which links, routes and rules are checked anyway.
    """

    ovsdb: Ovsdb
    links: KernelLinks
    host_ports: HostPorts
    world: WorldBuilder
    records: RecordEvents
    interval: float
    board: FaultBoard
    watches: HostWatches
    underlay: UnderlayExceptions
