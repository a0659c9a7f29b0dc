"""Carries the routes of the BGP peer to the World, each with the MAC address of its next hop.

In come the routes of a speaker (`ofnet.bgp.speaker`) and what ARP and ND said. Out go requests for
next hops (`netplugin.bgp.nexthops`), the routes whose next hop is resolved, and the MAC address of
the peer. The routes that an earlier agent left on the switch stay until the peer has sent all of
its own. `netplugin.bgp.host_bgp` starts and ends the session.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from typing import Protocol

from netplugin.bgp.nexthops import Address, NextHops
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.bgp.peering import Peering
from ofnet.openflow import packets
from ofnet.openflow.actions import Output
from ofnet.openflow.packets import Neighbour
from ofnet.packets.packetin import PacketOut
from ofnet.packets.uplink_choice import choose_uplink
from ofnet.world import Router


class RouteSource(Protocol):
    """What is read of a speaker (`ofnet.bgp.speaker.Speaker`)."""

    @property
    def peering(self) -> Peering:
        """Both ends of the session."""

    @property
    def routes(self) -> Mapping[IPv4Network | IPv6Network, Address]:
        """The next hop of each received prefix."""

    @property
    def routes_complete(self) -> bool:
        """True once the peer has sent all of its routes."""


class LearnedRoutes:
    """The routes of one host's peer; `changed` is set to have them carried to the World.

    `interval` is the pause between requests for next hops in seconds.
    """

    def __init__(self, world: WorldBuilder, agent: BridgeAgent, *, interval: float) -> None:
        self._world = world
        self._agent = agent
        self.hops = NextHops(self._send_request, interval=interval)
        self._source: RouteSource | None = None
        self.changed = asyncio.Event()

    def follow(self, source: RouteSource | None) -> None:
        """Carry the routes of a speaker from now on; None removes all routes."""
        self._source = source
        if source is None:
            self.hops.want(frozenset())
            self._world.vlan.set_routes({})
        else:
            self.hops.want(frozenset({source.peering.peer}))

    def put(self, neighbour: Neighbour) -> None:
        """Put the MAC address of a next hop."""
        if self.hops.put(neighbour.address, neighbour.mac):
            self.changed.set()

    def publish(self) -> None:
        """Put the routes with resolved next hops into the World."""
        source = self._source
        if source is None:
            return
        # A next hop of IPv4 must be on the peering's own network. That need not have a prefix of
        # IPv6 that is known here, so its next hops are requested there: only what answers is on it.
        # A route without a MAC address is held back: its flow could not say where packets go.
        near = {hop for hop in source.routes.values() if _on_network(hop, source.peering)}
        self.hops.want(frozenset({source.peering.peer, *near}))
        macs = self.hops.macs
        routes = {to: macs[hop] for to, hop in source.routes.items() if hop in macs}
        self._world.vlan.set_routes(routes)
        router = self._world.vlan.router
        if router is not None:
            self._world.vlan.set_router(self.known(router))
        # Old routes go when the peer has sent all of its own (End-of-RIB) and each of them has a
        # flow. Earlier, traffic to a route that is still to come would be dropped.
        if source.routes_complete and self.hops.complete:
            self.end_learning()

    def end_learning(self) -> None:
        """Let the routes go that the peer has not sent again."""
        self._world.vlan.set_learning(learning=False)

    def known(self, router: Router) -> Router:
        """Return the router with its peer's MAC address, if that is resolved."""
        return replace(router, peer_mac=self.hops.macs.get(router.peer))

    def _send_request(self, address: Address) -> None:
        """Send an untagged ARP or ND request for a next hop by an uplink that works."""
        world = self._agent.world
        if world.router is None or (uplink := choose_uplink(world.uplinks, str(address))) is None:
            return
        for frame in _request(uplink.mac, world.router, address):
            self._agent.send(PacketOut(data=frame, actions=(Output(uplink.ofport),)))


def _request(mac: str, router: Router, address: Address) -> Iterator[bytes]:
    if address.version == 6:
        if router.ip6 is not None:
            yield packets.solicitation(mac, router.ip6, address)
    elif router.ip is not None:
        yield packets.arp_request(mac, router.ip, address)


def _on_network(hop: Address, peering: Peering) -> bool:
    return hop.version == 6 or (peering.router is not None and hop in peering.router.network)
