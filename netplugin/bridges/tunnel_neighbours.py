"""Keeps the MAC addresses of tunnels' next hops resolved.

The userspace datapath needs the MAC of a tunnel's next hop, as ARP tells it. If that exchange is
lost, it keeps a decision to drop for as long as packets come, and asks no more. So the agent looks
which next hops are unresolved, asks for them, and has this host announce its own address, since the
other end may not have resolved this one. What is still unresolved afterwards is a fault of this
host.

Nor does it verify a MAC that it knows: it sends there for as long as packets come, though the peer
has another one, as after its address moved from a card to a bridge. So a host whose tunnel endpoint
has moved announces it, and each minute again. A next hop for which the host's own stack, which
verifies, has another MAC than Open vSwitch is asked for anew.

In come the tunnel endpoints (`netplugin.world.peers`), and what Open vSwitch and the kernel know;
out go ARP frames (`netplugin.kernel.arp`). The kernel's datapath needs none of it: there the kernel
keeps asking.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, NamedTuple, Protocol

from core.errors import HostError, SwitchRefused
from core.ids import HostLabel
from core.logs import fields
from core.patience import patient
from core.retry import REMOTE, Loop, retry

log = logging.getLogger(__name__)

NO_GATEWAY: Final = IPv4Address(0)
REFRESH: Final = 6
"""A tunnel endpoint that stays is announced in every so many checks: a broadcast may be lost, and
an address that moved and came back between two checks has left peers with an outdated MAC."""

Macs = Mapping[tuple[IPv4Address, str], str]
"""The MACs of neighbours, by address and by the link that they are on."""


class Control(Protocol):
    """What is used of `netplugin.ovsdb.control_socket.ControlSocket`."""

    async def call(self, command: str, *arguments: str) -> str:
        """Return the answer to a command. Raises SwitchUnavailable or SwitchRefused."""
        ...


class Arp(Protocol):
    """What is used of `netplugin.kernel.arp`. All raise HostError."""

    def ask(self, link: str, address: IPv4Address, target: IPv4Address) -> None:
        """Send an ARP request for `target` on a link."""
        ...

    def announce(self, link: str, address: IPv4Address) -> None:
        """Announce `address` by a link."""
        ...

    def mac_of(self, link: str) -> str:
        """Return the MAC of a link."""
        ...

    def resolved(self) -> Macs:
        """Return the MACs that the kernel has resolved."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourTiming:
    """Seconds between two checks, and from a question to the check whether it was answered."""

    check: float = 10.0
    answer: float = patient(1.0)


class Route(NamedTuple):
    """How tunnel packets leave: the next hop, the link, and this host's address on it."""

    next_hop: IPv4Address
    link: str
    source: IPv4Address


def known_neighbours(text: str) -> Macs:
    """Return the neighbours in an answer to `tnl/neigh/show`: a table of address, MAC, bridge."""
    found = {}
    for line in text.splitlines():
        address, mac, bridge, *_ = [*line.split(), "", "", ""]
        if mac.count(":") == 5 and ":" not in address:
            found[IPv4Address(address), bridge] = mac
    return found


def route_of(text: str, peer: IPv4Address) -> Route:
    """Return the route in an answer to `ovs/route/lookup`. Raises ValueError for another text."""
    said = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    if not said.keys() >= {"src", "dev"}:
        raise ValueError(f"no route: {text!r}")
    gateway = said.get("gateway", "::")
    next_hop = NO_GATEWAY if gateway == "::" else IPv4Address(gateway)
    return Route(
        peer if next_hop == NO_GATEWAY else next_hop, said["dev"], IPv4Address(said["src"])
    )


class TunnelNeighbours:
    """The next hops to all peers. One per agent with a userspace datapath.

    `own` is the address at which the tunnels of this host end. `report_faults` is given all faults
    after each check, by host.
    """

    def __init__(
        self,
        *,
        peers: Callable[[], Mapping[HostLabel, IPv4Address]],
        own: IPv4Address,
        control: Control,
        arp: Arp,
        report_faults: Callable[[Mapping[HostLabel, str]], None],
        timing: NeighbourTiming | None = None,
    ) -> None:
        self._peers = peers
        self._own = own
        self._control = control
        self._arp = arp
        self._report_faults = report_faults
        self._timing = timing or NeighbourTiming()
        self._before: Mapping[HostLabel, IPv4Address] = {}
        self._next_hops: dict[IPv4Address, IPv4Address] = {}
        self._suspected: set[HostLabel] = set()
        self._outdated_before: set[HostLabel] = set()
        self._reported: set[HostLabel] = set()
        self._place: tuple[str, str] | None = None
        self._until_announced = 0
        self._loop = Loop(log, "tunnel neighbours not checked", patience=REMOTE)

    def suspect(self, host: HostLabel) -> None:
        """Have the next check ask for a peer anew, because it does not answer this host."""
        self._suspected.add(host)

    async def run(self) -> None:
        """Check on the interval, for ever."""
        while True:
            await retry(self._loop, self.check)
            await asyncio.sleep(self._timing.check)

    async def check(self) -> None:
        """Check all next hops once, ask for what is unknown; log and report the faults.

        Raises SwitchUnavailable or SwitchRefused.
        """
        faults = await self._heal(dict(self._peers()))
        for host, fault in faults.items():
            if host not in self._reported:
                log.warning("tunnel next hop unresolved", extra=fields(peer=host, error=fault))
        for host in self._reported - faults.keys():
            log.info("tunnel next hop resolved", extra=fields(peer=host))
        self._reported = set(faults)
        self._report_faults(faults)

    async def _heal(self, peers: Mapping[HostLabel, IPv4Address]) -> dict[HostLabel, str]:
        if not peers:
            return {}
        await self._notice_move()
        known = await self._known()
        unresolved = self._unresolved(peers, known)
        # Not in two checks running: Open vSwitch takes no note of an answer for which its datapath
        # has a flow, and one that arrives every 10 s keeps that flow.
        outdated = self._outdated(peers, known) - self._outdated_before
        self._outdated_before = outdated
        # Peers that came since the last check are told of this host: they may have asked for it
        # when it, or its Open vSwitch, was not up.
        new = {host for host, address in peers.items() if self._before.get(host) != address}
        suspected, self._suspected = self._suspected & peers.keys(), set()
        self._before = peers
        routes: dict[HostLabel, Route] = {}
        faults: dict[HostLabel, str] = {}
        for host in sorted(unresolved | outdated | new | suspected):
            try:
                routes[host] = await self._route(peers[host])
            except (SwitchRefused, ValueError) as exc:
                faults[host] = (
                    f"Open vSwitch has no route to its tunnel endpoint {peers[host]}: {exc}"
                )
        try:
            self._send(routes)
        except HostError as exc:
            faults |= dict.fromkeys(routes, str(exc))
        if unresolved & routes.keys():
            await asyncio.sleep(self._timing.answer)
            asked = {host: peers[host] for host in routes}
            for host in self._unresolved(asked, await self._known()):
                faults.setdefault(host, _unresolved_hop(routes[host]))
        return faults

    async def _notice_move(self) -> None:
        """Have this host announced if its tunnels end on another link or MAC than before."""
        try:
            link = (await self._lookup(self._own)).link
            place = link, self._arp.mac_of(link)
        except (SwitchRefused, ValueError, HostError) as exc:
            # While the address moves it is on no link.
            log.debug("tunnel endpoint not resolved", extra=fields(error=exc))
            return
        if place != self._place:
            about = fields(address=self._own, port=link, mac=place[1])
            log.info("gratuitous ARP sent", extra=about)
            self._place, self._until_announced = place, 0
            self._before = {}  # the routes to all peers may be others now

    async def _known(self) -> Macs:
        return known_neighbours(await self._control.call("tnl/neigh/show"))

    def _unresolved(self, peers: Mapping[HostLabel, IPv4Address], known: Macs) -> set[HostLabel]:
        """Return the peers that packets cannot be sent to, for want of the next hop's MAC."""
        addresses = {address for address, _ in known}
        return {host for host, peer in peers.items() if self._next_hop(peer) not in addresses}

    def _outdated(self, peers: Mapping[HostLabel, IPv4Address], known: Macs) -> set[HostLabel]:
        """Return the peers whose next hop has another MAC for the kernel than for Open vSwitch."""
        # Open vSwitch learns from answers alone, the kernel from what peers ask as well. Neither
        # need be right: both take the answer to another question.
        resolved = self._arp.resolved()
        differing = {
            address
            for (address, link), mac in known.items()
            if resolved.get((address, link), mac) != mac
        }
        return {host for host, peer in peers.items() if self._next_hop(peer) in differing}

    def _next_hop(self, peer: IPv4Address) -> IPv4Address:
        return self._next_hops.get(peer, peer)

    async def _route(self, peer: IPv4Address) -> Route:
        route = await self._lookup(peer)
        self._next_hops[peer] = route.next_hop
        return route

    async def _lookup(self, address: IPv4Address) -> Route:
        return route_of(await self._control.call("ovs/route/lookup", str(address)), address)

    def _send(self, routes: Mapping[HostLabel, Route]) -> None:
        """Ask for each next hop, and announce this host on each link, once."""
        for route in sorted(set(routes.values())):
            self._arp.ask(route.link, route.source, route.next_hop)
        ends = {(route.link, route.source) for route in routes.values()}
        if self._place is not None and not self._until_announced:
            ends.add((self._place[0], self._own))
        for link, source in sorted(ends):
            self._arp.announce(link, source)
        self._until_announced = (self._until_announced or REFRESH) - 1


def _unresolved_hop(route: Route) -> str:
    return (
        f"Open vSwitch does not know the MAC of {route.next_hop} on {route.link} and drops what "
        f"tunnels send there: see that ARP passes between the hosts"
    )
