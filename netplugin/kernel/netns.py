"""Links, addresses and namespaces of this host (ADR 14).

In come names, paths and addresses, out go interfaces as the kernel has them; `netplugin.pods.add`
decides which. What is done to the pods' links is `netplugin.kernel.pod_links`, what concerns the
host's own `netplugin.kernel.host_links`. Both block for as long as the kernel works, so each call
runs in a small pool of threads, removals in a thread of their own. What the kernel refuses is a
HostError that names link and namespace.
"""

import asyncio
import errno
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from typing import Final, ParamSpec, TypeVar

from core.errors import HostError
from netplugin.kernel import host_links, namespaces, pod_links
from netplugin.kernel.host_links import HostRoute, Nic
from netplugin.kernel.netlink import Address, Interface
from netplugin.kernel.pod_links import PodLink

P = ParamSpec("P")
T = TypeVar("T")

_CARRIER: Final = 5.0
_CARRIER_POLL: Final = 0.0005
_OVS_FAMILY: Final = "ovs_datapath"
_RTMGRP_LINK: Final = 1
_NEWS: Final = 65_536
_WORKERS: Final = 4


class KernelLinks:
    """The links of the namespace the agent runs in, and what hangs on them in the pods'."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="netlink")
        self._remover = ThreadPoolExecutor(1, thread_name_prefix="netlink-remove")
        self._pending: set[str] = set()
        self._stuck: dict[str, str] = {}
        self._removal = asyncio.Lock()

    def close(self) -> None:
        """Let the threads go when they are done."""
        self._pool.shutdown(wait=False)
        self._remover.shutdown(wait=False)

    async def add_pod_link(self, spec: PodLink) -> None:
        """Make the veth, its host end up; a link that has the host end's name makes way."""
        await self._call(pod_links.add, spec)

    async def configure_pod(
        self,
        netns_path: str,
        ifname: str,
        mac: str,
        addresses: Sequence[Interface],
        gateways: Sequence[Address],
    ) -> None:
        """Bring the pod's end up with its addresses and default routes, and loopback with it.

        What is there already is left as it is.
        """
        await self._call(pod_links.configure, netns_path, ifname, mac, addresses, gateways)

    async def route_pod(self, netns_path: str, ifname: str, subnet: IPv4Network) -> None:
        """Have a pod look for who is in a subnet on one of its links."""
        await self._call(pod_links.route, netns_path, ifname, subnet)

    async def passing(self, name: str) -> None:
        """Return when a link of this host passes what it is given, its other end being up.

        The kernel lets it a moment later, by work of its own; what comes before is dropped. Raises
        HostError if it never does.
        """
        give_up_at = time.monotonic() + _CARRIER
        while not pod_links.running(name):
            if time.monotonic() > give_up_at:
                raise HostError(f"link {name} has no carrier after {_CARRIER:g} s")
            await asyncio.sleep(_CARRIER_POLL)

    async def configure_host_link(
        self, name: str, mac: str, addresses: Sequence[Interface]
    ) -> None:
        """Bring a link of the host up with MAC and addresses; other IPv4 ones of it go.

        Routes are `ensure_routes`' alone: the kernel adds none for an IPv4 address.
        """
        await self._call(host_links.configure, name, mac, addresses)

    async def ensure_routes(self, name: str, routes: Collection[HostRoute]) -> None:
        """Have these routes over a link of ours, and no other IPv4 ones.

        Raises HostError when somebody else has a route to one of the subnets.
        """
        await self._call(host_links.ensure_routes, name, routes)

    async def delete_links(self, names: Iterable[str]) -> None:
        """Remove links, and with a veth's host end its pod's end; missing ones are gone already.

        The kernel takes some 20 ms however many there are, so calls that meet are done in one.
        Raises HostError when one of the names given is still there; calling again tries again.
        """
        wanted = set(names)
        self._pending |= wanted
        async with self._removal:
            batch, self._pending = self._pending, set()
            if batch:
                loop = asyncio.get_running_loop()
                try:
                    stuck = await loop.run_in_executor(self._remover, pod_links.delete, batch)
                except BaseException:
                    self._pending |= batch  # the others' links are theirs to try again
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

    async def routed(self) -> list[tuple[IPv4Network, str]]:
        """Return where IPv4 packets go: subnets, each with the name of a link of this host."""
        return await self._call(host_links.routes)

    async def mtus(self) -> dict[str, int]:
        """Return the MTUs of all links of this host."""
        return await self._call(host_links.mtus)

    async def set_pod_mtu(self, host_name: str, ifname: str, netns_path: str, mtu: int) -> None:
        """Give both ends of a pod's link another MTU; the host's last, for it shows what both have.

        Raises HostError.
        """
        await self._call(pod_links.set_mtu, host_name, ifname, netns_path, mtu)

    async def changes(self) -> AsyncIterator[None]:
        """Yield at once, and then whenever links of this host have changed, for ever."""
        loop = asyncio.get_running_loop()
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        with socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE) as news:
            news.bind((0, _RTMGRP_LINK))
            while True:
                yield
                try:
                    await loop.sock_recv(news, _NEWS)
                    while True:
                        news.recv(_NEWS)  # what came with it is the same news
                except BlockingIOError:
                    continue
                except OSError as exc:
                    if exc.errno != errno.ENOBUFS:  # some were lost, which is news too
                        raise HostError(f"cannot follow links: {exc.strerror}") from exc

    async def cards(self, names: Iterable[str]) -> tuple[Nic, ...]:
        """Return network cards of this host. Raises HostError if one is absent."""
        return await self._call(host_links.cards, list(names))

    async def netns_alive(self, path: str) -> bool:
        """Tell whether the path is, or may be, that of a network namespace, not the host's own."""
        return await self._call(namespaces.alive, path)

    async def has_kernel_datapath(self) -> bool:
        """Tell whether the kernel has Open vSwitch's datapath; without it there is userspace's."""
        return await self._call(host_links.has_family, _OVS_FAMILY)

    async def _call(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, work, *args)
