"""The asyncio client of links, addresses and namespaces of this host (ADR 14).

In come names, paths and addresses; out go interfaces in the kernel.
`netplugin.kernel.links.pod_links` does the work on links of pods,
`netplugin.kernel.links.host_links` on the host's own. Both block while the kernel works, so each
call runs in a small thread pool. A refusal of the kernel is a HostError that names link and
namespace.
"""

import asyncio
import errno
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Network, IPv6Address
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from core.errors import HostError
from core.patience import patient
from netplugin.kernel import reverse_paths
from netplugin.kernel.links import (
    host_links,
    name_space,
    namespaces,
    pod_link_state,
    pod_links,
    pod_places,
    receive_limit,
)
from netplugin.kernel.links.host_links import Nic
from netplugin.kernel.links.name_space import NameSpace
from netplugin.kernel.links.pod_link_state import FoundLink
from netplugin.kernel.links.pod_links import KeptUp, PodLink
from netplugin.kernel.links.pod_places import PodPlace
from netplugin.kernel.netlink.events import listening
from netplugin.kernel.netlink.requests import Address, Interface, Network
from netplugin.kernel.routes import route_table
from netplugin.kernel.routes.route_table import HostRoute

P = ParamSpec("P")
T = TypeVar("T")

CARRIER: Final = patient(5.0)
"""Seconds in which a link has to have a carrier."""

_CARRIER_POLL: Final = 0.0005
_OVS_FAMILY: Final = "ovs_datapath"
_RTMGRP_LINK: Final = 1
_RTMGRP_ADDRESSES: Final = 0x10 | 0x100
"""IPv4 and IPv6 (rtnetlink(7))."""
_ADDRESS_EVENT: Final = struct.Struct("=I15xB")
"""Length of a netlink message, and the scope of the address it is about."""
_SCOPE_LINK: Final = 253
_RECEIVE: Final = 65_536
_WORKERS: Final = 4


class KernelLinks:
    """The links of the agent's network namespace, and their peers in those of pods."""

    def __init__(self) -> None:
        # Deletions have a thread of their own: each takes the kernel some 20 ms, and many DELs at
        # once would occupy the pool while ADDs wait.
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="netlink")
        self._remover = ThreadPoolExecutor(1, thread_name_prefix="netlink-remove")
        self._pending: set[str] = set()
        self._stuck: dict[str, str] = {}
        self._removal = asyncio.Lock()

    def close(self) -> None:
        """End the threads when their work is done."""
        self._pool.shutdown(wait=False)
        self._remover.shutdown(wait=False)

    async def add_pod_link(self, spec: PodLink) -> None:
        """Create the veth pair, its host end up; first delete a link of the host end's name."""
        await self._call(pod_links.add, spec)

    async def configure_pod(
        self,
        netns_path: str,
        ifname: str,
        mac: str,
        addresses: Sequence[Interface],
        gateways: Sequence[Address],
    ) -> None:
        """Set the pod's end and loopback up, with its addresses and default routes.

        What exists already is not changed.
        """
        await self._call(pod_links.configure, netns_path, ifname, mac, addresses, gateways)

    async def pod_link(self, netns_path: str, ifname: str) -> FoundLink | None:
        """Return what a pod's end has now, None if there is no such link."""
        return await self._call(pod_link_state.read, netns_path, ifname)

    async def receives_at_most(self, name: str, rate: int, burst: int) -> bool:
        """Return whether a pod's link limits what it receives, as `add_pod_link` does."""
        return await self._call(receive_limit.holds, name, rate, burst)

    async def route_pod(self, netns_path: str, ifname: str, subnet: IPv4Network) -> None:
        """Add a directly connected route to a pod."""
        await self._call(pod_links.route, netns_path, ifname, subnet)

    async def passing(self, name: str, limit: float = CARRIER) -> None:
        """Return when a link of this host forwards packets, its other end being up.

        Raises HostError after `limit` seconds.
        """
        # The kernel activates the link asynchronously, a moment after the carrier. Packets before
        # that are dropped, so an ADD that did not wait could lose its pod's first packet.
        give_up_at = time.monotonic() + limit
        while not pod_links.running(name):
            if time.monotonic() > give_up_at:
                raise HostError(f"link {name} has no carrier after {limit:g} s")
            await asyncio.sleep(_CARRIER_POLL)

    async def keep_up(self, names: Collection[str]) -> KeptUp:
        """Set links of this host up that are down; tell which are missing."""
        return await self._call(pod_links.keep_up, names)

    async def configure_host_link(
        self, name: str, mac: str, addresses: Sequence[Interface]
    ) -> None:
        """Set a link of the host up with MAC and addresses; remove its other IPv4 addresses.

        The kernel adds no routes for them: these are set by `ensure_routes`.
        """
        await self._call(host_links.configure, name, mac, addresses)

    async def ensure_routes(self, name: str, routes: Collection[HostRoute]) -> None:
        """Set the routes by a link of the agent, in its own table; remove all others by it.

        Raises HostError when another link of the agent has the route to one of the subnets.
        """
        await self._call(route_table.ensure_routes, name, routes)

    async def change_routes(
        self, name: str, gone: Collection[HostRoute], new: Collection[HostRoute]
    ) -> None:
        """Remove routes that `ensure_routes` set, and add others; all others stay.

        Raises HostError as `ensure_routes`.
        """
        await self._call(route_table.change_routes, name, gone, new)

    async def ensure_rules(self, first: Collection[Network]) -> None:
        """Have the agent's routing table looked up, after the host's own routes but its default.

        For destinations in `first` it is looked up before.
        """
        await self._call(route_table.ensure_rules, first)

    async def adopt_routes(self) -> int:
        """Move the routes of an earlier release to the agent's table; return their number."""
        return await self._call(route_table.adopt)

    async def ensure_exceptions(self, addresses: Collection[Address], *, only: bool) -> None:
        """Have no route of the agent's table take these addresses; with `only` no others."""
        await self._call(partial(route_table.ensure_exceptions, addresses, only=only))

    async def change_exceptions(self, gone: Collection[Address], new: Collection[Address]) -> None:
        """Have no route take more addresses; have routes take others again."""
        await self._call(route_table.change_exceptions, gone, new)

    async def routing(self) -> list[str]:
        """Return the agent's rules and its table, a line of text for each that is there."""
        return await self._call(route_table.picture)

    async def withdraw_routing(self) -> None:
        """Remove the agent's rules, and the routes of its table."""
        await self._call(route_table.withdraw)

    async def ways(self, addresses: Sequence[Address]) -> dict[Address, tuple[str, Address | None]]:
        """Return the link by which the host sends to each address, "" for none, and next hops."""
        return await self._call(host_links.ways, addresses)

    async def drop_addresses(self, wrong: Callable[[Interface, str], bool]) -> list[str]:
        """Remove IPv4 addresses of links, which `wrong` tells by the address and the MAC."""
        return await self._call(host_links.drop_addresses, wrong)

    async def ensure_source(self, name: str, source: IPv6Address) -> None:
        """Give a link an address for routes alone: the kernel chooses it for nothing else."""
        await self._call(host_links.ensure_source, name, source)

    async def has_ipv6(self, name: str) -> bool:
        """Return whether the kernel has IPv6, and the administrator leaves it to a link."""
        return await self._call(route_table.has_ipv6_on, name)

    async def loosen(self, name: str) -> bool:
        """Have a link of the host take packets whose answers leave by another one.

        Return whether it did not.
        """
        return await self._call(reverse_paths.loosen, name)

    async def ensure_neighbours(self, name: str, macs: Mapping[Address, str]) -> None:
        """Set the MAC addresses of neighbours that routes lead to, for good."""
        await self._call(host_links.ensure_neighbours, name, macs)

    async def delete_links(self, names: Iterable[str]) -> None:
        """Delete links; the peer of a veth goes with it. A missing link is a success.

        Raises HostError when one of the links could not be deleted; the call may be repeated.
        """
        # The kernel takes some 20 ms however many links are deleted. So calls that arrive during a
        # deletion are collected, and the next holder of the lock deletes all of them at once.
        wanted = set(names)
        self._pending |= wanted
        async with self._removal:
            batch, self._pending = self._pending, set()
            if batch:
                loop = asyncio.get_running_loop()
                try:
                    stuck = await loop.run_in_executor(self._remover, pod_links.delete, batch)
                except BaseException:
                    # The batch may contain links of other calls, which still wait for the lock.
                    self._pending |= batch
                    raise
                self._stuck = {n: e for n, e in self._stuck.items() if n not in batch} | stuck
        failed = {name: self._stuck[name] for name in sorted(wanted & self._stuck.keys())}
        if failed:
            reasons = ", ".join(f"{name}: {reason}" for name, reason in failed.items())
            raise HostError(f"cannot remove links: {reasons}")

    async def links(self) -> frozenset[str]:
        """Return the names of all links of the host."""
        return await self._call(host_links.names)

    async def holder(self, address: Address) -> str:
        """Return the name of the link that has the address. Raises HostError when none has."""
        return await self._call(host_links.holder, address)

    async def addresses(self, is_pods: Callable[[str], bool]) -> frozenset[str]:
        """Return the addresses of this host, link-local ones of pods' links (by name) excepted."""
        return await self._call(host_links.addresses, is_pods)

    async def own_addresses(self) -> frozenset[str]:
        """Return the addresses of this host that others may know it by."""
        return await self._call(host_links.own_addresses)

    async def routed(self) -> list[tuple[IPv4Network, str]]:
        """Return the IPv4 routes: subnets, each with the name of a link of this host."""
        return await self._call(host_links.routes)

    async def link_towards(self, address: Address) -> str:
        """Return the name of the link by which the host sends to an address, "" for none."""
        return await self._call(host_links.link_towards, address)

    async def mtus(self) -> dict[str, int]:
        """Return the MTUs of all links of this host."""
        return await self._call(host_links.mtus)

    async def set_pod_mtu(self, host_name: str, ifname: str, netns_path: str, mtu: int) -> None:
        """Set the MTU of both ends of a pod's link.

        The host's end last: its MTU shows that both are set.

        Raises HostError.
        """
        await self._call(pod_links.set_mtu, host_name, ifname, netns_path, mtu)

    async def set_peer_mtu(self, host_name: str, netns_path: str, mtu: int) -> None:
        """As `set_pod_mtu`, for a link whose other end an engine has named. Raises HostError."""
        await self._call(pod_links.set_peer_mtu, host_name, netns_path, mtu)

    def changes(self) -> AsyncIterator[None]:
        """Yield at once, and then after every change of links of this host, for ever."""
        return _follow(_RTMGRP_LINK, "links")

    def address_changes(self) -> AsyncIterator[None]:
        """Yield at once, and then after every change of addresses of this host, for ever.

        Changes of link-local addresses are passed over: every link of a pod makes some.
        """
        return _follow(_RTMGRP_ADDRESSES, "addresses", _concerns_addresses)

    async def picture(self) -> dict[str, list[str]]:
        """Return the links, addresses and routes of this host, a line of text for each."""
        return await self._call(host_links.picture)

    async def cards(self, names: Iterable[str]) -> tuple[Nic, ...]:
        """Return NICs of this host. Raises HostError if one is absent."""
        return await self._call(host_links.cards, list(names))

    async def reopen_name_space(self, host_name: str, path: Path) -> NameSpace | None:
        """Return the namespace of the name service that has this file; None if it is not whole."""
        return await self._call(name_space.reopen, host_name, path)

    async def create_name_space(self, host_name: str, path: Path, *, tx_off: bool) -> NameSpace:
        """Create the namespace of the name service; one end of its link is on the host."""
        return await self._call(partial(name_space.create, host_name, path, tx_off=tx_off))

    async def remove_name_space(self, path: Path) -> None:
        """Remove the namespace of the name service that has this file, and with it its link."""
        await self._call(namespaces.give_up, path)

    async def pod_socket(self, netns_path: str, dscp: int, version: int) -> socket.socket:
        """Return a TCP socket in a pod's namespace, whose packets carry a DSCP."""
        return await self._call(name_space.pod_socket, netns_path, dscp, version)

    async def pod_places(self, names: Collection[str]) -> dict[str, PodPlace]:
        """Return where the peers of links are, by the links' names; links without one are left out.

        Raises HostError.
        """
        return await self._call(pod_places.find, names)

    async def netns_alive(self, path: str) -> bool:
        """Return False only if the path is certainly not a pod's network namespace."""
        return await self._call(namespaces.alive, path)

    async def has_kernel_datapath(self) -> bool:
        """Return whether the kernel has Open vSwitch's datapath."""
        return await self._call(host_links.has_family, _OVS_FAMILY)

    async def _call(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, work, *args)


async def _follow(
    groups: int, what: str, concerns: Callable[[bytes], bool] = bool
) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    with _listening(groups, what) as events:
        changed = True
        while True:
            if changed:
                yield
            try:
                changed = concerns(await loop.sock_recv(events, _RECEIVE))
                while True:
                    # further events belong to the same change
                    changed |= concerns(events.recv(_RECEIVE))
            except BlockingIOError:
                continue
            except OSError as exc:
                if exc.errno != errno.ENOBUFS:
                    raise HostError(f"cannot follow {what}: {exc.strerror}") from exc
                changed = True  # events were lost


def _listening(groups: int, what: str) -> socket.socket:
    """Return a socket that hears of changes. Raises HostError."""
    try:
        return listening(socket.NETLINK_ROUTE, groups)
    except OSError as exc:
        raise HostError(f"cannot follow {what}: {exc.strerror}") from exc


def _concerns_addresses(events: bytes) -> bool:
    """Return whether one of some netlink messages is about an address that is not link-local."""
    offset = 0
    while offset + _ADDRESS_EVENT.size <= len(events):
        length, scope = _ADDRESS_EVENT.unpack_from(events, offset)
        if scope != _SCOPE_LINK:
            return True
        offset += max(length + 3 & ~3, _ADDRESS_EVENT.size)
    return False
