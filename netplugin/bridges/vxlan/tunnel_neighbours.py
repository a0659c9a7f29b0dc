"""Keeps the MAC addresses of tunnels' next hops resolved.

The userspace datapath needs the MAC of a tunnel's next hop, as ARP tells it, or neighbour
discovery. If that exchange is lost, it keeps a decision to drop for as long as packets come, and
asks no more. So the agent looks which next hops are unresolved, asks for them, and has this host
announce its own address, since the other end may not have resolved this one. What is still
unresolved afterwards is a fault of this host.

Nor does it verify a MAC that it knows: it sends there for as long as packets come, though the peer
has another one, as after its address moved from a card to a bridge, until it hears an answer to
somebody's question, an announcement, or a packet of the peer's tunnel. So a host whose tunnel
endpoint has moved announces it, and each minute again. A next hop for which the host's own stack,
which verifies, has another MAC than Open vSwitch is asked for anew.

In come the tunnel endpoints (`netplugin.world.peers`), and what Open vSwitch and the kernel know;
out go frames of both (`netplugin.kernel.packets.neighbour_frames`). The kernel's datapath needs
none of it: there the kernel keeps asking.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, Protocol

from core.errors import HostError, SwitchRefused
from core.ids import HostLabel
from core.logs import fields
from core.patience import patient
from core.retry import REMOTE, FaultBoard, Loop, retry
from netplugin.bridges.vxlan.path_mtu import TunnelEnds, by_host
from netplugin.ovsdb.control_socket import SwitchCommands
from netplugin.world.peers import Address

log = logging.getLogger(__name__)

NO_GATEWAY: Final = IPv6Address(0)
REFRESH: Final = 6
"""A tunnel endpoint that stays is announced in every so many checks: a broadcast may be lost, and
an address that moved and came back between two checks has left peers with an outdated MAC."""

Macs = Mapping[tuple[Address, str], str]
"""The MACs of neighbours, by address and by the link that they are on."""


class Frames(Protocol):
    """What is used of `netplugin.kernel.packets.neighbour_frames`. All raise HostError."""

    def ask(self, link: str, address: Address, target: Address) -> None:
        """Send a request for `target` on a link."""
        ...

    def announce(self, link: str, address: Address) -> None:
        """Announce `address` by a link."""
        ...

    def mac_of(self, link: str) -> str:
        """Return the MAC of a link."""
        ...

    def resolved(self, version: int) -> Macs:
        """Return the MACs that the kernel has resolved of a version of IP."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourTiming:
    """Seconds between two checks, and from a question to the check whether it was answered."""

    check: float = 10.0
    answer: float = patient(1.0)


class TunnelRoute(NamedTuple):
    """How tunnel packets leave: the next hop, the link, and this host's address on it."""

    next_hop: Address
    link: str
    source: Address

    @property
    def order(self) -> tuple[str, int, int, int]:
        """What sorts routes."""
        return self.link, self.next_hop.version, int(self.next_hop), int(self.source)


def known_neighbours(text: str) -> Macs:
    """Return the neighbours in an answer to `tnl/neigh/show`: a table of address, MAC, bridge."""
    found = {}
    for line in text.splitlines():
        address, mac, bridge, *_ = [*line.split(), "", "", ""]
        if mac.count(":") == 5:
            found[ip_address(address), bridge] = mac
    return found


def route_of(text: str, peer: Address) -> TunnelRoute:
    """Return the route in an answer to `ovs/route/lookup`. Raises ValueError for another text."""
    said = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    if not said.keys() >= {"src", "dev"}:
        raise ValueError(f"no route: {text!r}")
    gateway = ip_address(said.get("gateway", "::"))
    next_hop = peer if gateway == NO_GATEWAY else gateway
    return TunnelRoute(next_hop, said["dev"], ip_address(said["src"]))


class TunnelNeighbours:
    """The next hops to all peers. One per agent with a userspace datapath.

    `own` are the addresses at which the tunnels of this host end.
    """

    def __init__(
        self,
        *,
        peers: TunnelEnds,
        own: Sequence[Address],
        control: SwitchCommands,
        frames: Frames,
        board: FaultBoard,
        timing: NeighbourTiming | None = None,
    ) -> None:
        self._peers = peers
        self._own = own
        self._control = control
        self._frames = frames
        self._board = board
        self._timing = timing or NeighbourTiming()
        self._before: Mapping[HostLabel, Address] = {}
        self._next_hops: dict[Address, Address] = {}
        self._suspected: set[HostLabel] = set()
        self._outdated_before: set[HostLabel] = set()
        self._reported: set[HostLabel] = set()
        self._places: dict[Address, tuple[str, str]] = {}
        """The link and the MAC of each address of this host's."""
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
        faults = await self._heal(dict(self._peers.tunnel_ends()))
        for host, fault in faults.items():
            if host not in self._reported:
                log.warning("tunnel next hop unresolved", extra=fields(peer=host, error=fault))
        for host in self._reported - faults.keys():
            log.info("tunnel next hop resolved", extra=fields(peer=host))
        self._reported = set(faults)
        self._board.set_faults("tunnel neighbours", by_host("tunnel", faults))

    async def _heal(self, peers: Mapping[HostLabel, Address]) -> dict[HostLabel, str]:
        if not peers:
            return {}
        for own in self._own:
            await self._notice_move(own)
        known = await self._known()
        unresolved = self._unresolved(peers, known)
        # Not in two checks running: Open vSwitch takes no note of an answer for which its datapath
        # has a flow, and one that arrives every 10 s keeps that flow.
        outdated = await self._outdated(peers, known) - self._outdated_before
        self._outdated_before = outdated
        # Peers that came since the last check are told of this host: they may have asked for it
        # when it, or its Open vSwitch, was not up.
        new = {host for host, address in peers.items() if self._before.get(host) != address}
        suspected, self._suspected = self._suspected & peers.keys(), set()
        self._before = peers
        routes: dict[HostLabel, TunnelRoute] = {}
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

    async def _notice_move(self, own: Address) -> None:
        """Have this host announced if its tunnels end on another link or MAC than before."""
        try:
            link = (await self._lookup(own)).link
            place = link, self._frames.mac_of(link)
        except (SwitchRefused, ValueError, HostError) as exc:
            # While the address moves it is on no link.
            log.debug("tunnel endpoint not resolved", extra=fields(error=exc))
            return
        if place != self._places.get(own):
            about = fields(address=own, port=link, mac=place[1])
            if own.version == 4:
                log.info("gratuitous ARP sent", extra=about)
            else:
                log.info("unsolicited neighbour advertisement sent", extra=about)
            self._places[own], self._until_announced = place, 0
            self._before = {}  # the routes to all peers may be others now

    async def _known(self) -> Macs:
        return known_neighbours(await self._control.call("tnl/neigh/show"))

    def _unresolved(self, peers: Mapping[HostLabel, Address], known: Macs) -> set[HostLabel]:
        """Return the peers that packets cannot be sent to, for want of the next hop's MAC."""
        addresses = {address for address, _ in known}
        return {host for host, peer in peers.items() if self._next_hop(peer) not in addresses}

    async def _outdated(self, peers: Mapping[HostLabel, Address], known: Macs) -> set[HostLabel]:
        """Return the peers whose next hop has another MAC for the kernel than for Open vSwitch."""
        # The kernel learns from what peers ask as well, Open vSwitch does not. Neither need be
        # right: both take the answer to another question.
        resolved: dict[tuple[Address, str], str] = {}
        for version in sorted({own.version for own in self._own}):
            resolved |= await asyncio.to_thread(self._frames.resolved, version)
        differing = {
            address
            for (address, link), mac in known.items()
            if resolved.get((address, link), mac) != mac
        }
        return {host for host, peer in peers.items() if self._next_hop(peer) in differing}

    def _next_hop(self, peer: Address) -> Address:
        return self._next_hops.get(peer, peer)

    async def _route(self, peer: Address) -> TunnelRoute:
        route = await self._lookup(peer)
        self._next_hops[peer] = route.next_hop
        return route

    async def _lookup(self, address: Address) -> TunnelRoute:
        return route_of(await self._control.call("ovs/route/lookup", str(address)), address)

    def _send(self, routes: Mapping[HostLabel, TunnelRoute]) -> None:
        """Ask for each next hop, and announce this host on each link, once."""
        for route in sorted(set(routes.values()), key=lambda one: one.order):
            self._frames.ask(route.link, route.source, route.next_hop)
        ends = {(route.link, route.source) for route in routes.values()}
        if not self._until_announced:
            ends |= {(link, own) for own, (link, _) in self._places.items()}
        for link, source in sorted(ends, key=lambda one: (one[0], one[1].version, int(one[1]))):
            self._frames.announce(link, source)
        self._until_announced = (self._until_announced or REFRESH) - 1


def _unresolved_hop(route: TunnelRoute) -> str:
    what = "ARP" if route.next_hop.version == 4 else "neighbour discovery"
    return (
        f"Open vSwitch does not know the MAC of {route.next_hop} on {route.link} and drops what "
        f"tunnels send there: see that {what} passes between the hosts"
    )
