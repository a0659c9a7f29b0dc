"""Links, addresses and namespaces of this host (design D7).

In come names, paths and addresses, out go interfaces as the kernel has them; `netplugin.pods`
decides which. What is done to the pods' links is here, by requests of `netplugin.netlink`; what
concerns the host's own is `netplugin.ownlinks`. Netlink blocks for as long as the kernel works, so
each call runs in a small pool of threads, removals in a thread of their own. What the kernel
refuses is a HostError that names link and namespace.

A pod's end of a veth is born in the pod's namespace: to move a link there takes the kernel 17 ms.
Work inside a namespace is done by a thread that enters it for the moment; pyroute2's own way forks.
"""

import asyncio
import ctypes
import errno
import fcntl
import logging
import os
import secrets
import socket
import struct
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from core.errors import HostError
from netplugin import netlink, ownlinks
from netplugin.netlink import Address, Interface
from netplugin.ownlinks import Card, HostRoute

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_CLONE_NEWNET: Final = 0x4000_0000
_NS_GET_NSTYPE: Final = 0xB703
_SIOCGIFFLAGS: Final = 0x8913
_IFF_RUNNING: Final = 0x40
_CARRIER: Final = 5.0
_CARRIER_POLL: Final = 0.0005
_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_GLINK: Final = 0x0A
_ETHTOOL_STXCSUM: Final = 0x17
_OVS_FAMILY: Final = "ovs_datapath"
_RTMGRP_LINK: Final = 1
_NEWS: Final = 65_536
_WORKERS: Final = 4

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLink:
    """A veth to make: its ends by name, the far one in the namespace at `netns_path`.

    `tx_off` makes the pod compute its checksums itself: the userspace datapath does not, and TCP
    hangs without.
    """

    host_name: str
    ifname: str
    netns_path: str
    mtu: int
    tx_off: bool = False


class HostLinks:
    """The links of the namespace the agent runs in, and what hangs on them in the pods'."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="netlink")
        self._remover = ThreadPoolExecutor(1, thread_name_prefix="netlink-remove")
        self._doomed: set[str] = set()
        self._stuck: dict[str, str] = {}
        self._removal = asyncio.Lock()

    def close(self) -> None:
        """Let the threads go when they are done."""
        self._pool.shutdown(wait=False)
        self._remover.shutdown(wait=False)

    async def add_pod_link(self, spec: PodLink) -> None:
        """Make the veth, its host end up; a link that has the host end's name makes way."""
        await self._call(_add_pod_link, spec)

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
        await self._call(_configure_pod, netns_path, ifname, mac, addresses, gateways)

    async def route_pod(self, netns_path: str, ifname: str, subnet: IPv4Network) -> None:
        """Have a pod look for who is in a subnet on one of its links."""
        await self._call(_route_pod, netns_path, ifname, subnet)

    async def passing(self, name: str) -> None:
        """Return when a link of this host passes what it is given, its other end being up.

        The kernel lets it a moment later, by work of its own; what comes before is dropped. Raises
        HostError if it never does.
        """
        give_up_at = time.monotonic() + _CARRIER
        while not _running(name):
            if time.monotonic() > give_up_at:
                raise HostError(f"link {name} has no carrier after {_CARRIER:g} s")
            await asyncio.sleep(_CARRIER_POLL)

    async def configure_host_link(
        self, name: str, mac: str, addresses: Sequence[Interface]
    ) -> None:
        """Bring a link of the host up with MAC and addresses; other IPv4 ones of it go.

        Routes are `ensure_routes`' alone: the kernel adds none for an IPv4 address.
        """
        await self._call(ownlinks.configure, name, mac, addresses)

    async def ensure_routes(self, name: str, routes: Collection[HostRoute]) -> None:
        """Have these routes over a link of ours, and no other IPv4 ones.

        Raises HostError when somebody else has a route to one of the subnets.
        """
        await self._call(ownlinks.ensure_routes, name, routes)

    async def delete_links(self, names: Iterable[str]) -> None:
        """Remove links, and with a veth's host end its pod's end; missing ones are gone already.

        The kernel takes some 20 ms however many there are, so calls that meet are done in one.
        Raises HostError when one of the names given is still there; calling again tries again.
        """
        wanted = set(names)
        self._doomed |= wanted
        async with self._removal:
            batch, self._doomed = self._doomed, set()
            if batch:
                loop = asyncio.get_running_loop()
                try:
                    stuck = await loop.run_in_executor(self._remover, _delete_links, batch)
                except BaseException:
                    self._doomed |= batch  # the others' links are theirs to try again
                    raise
                self._stuck = {n: e for n, e in self._stuck.items() if n not in batch} | stuck
        failed = {name: self._stuck[name] for name in sorted(wanted & self._stuck.keys())}
        if failed:
            reasons = ", ".join(f"{name}: {reason}" for name, reason in failed.items())
            raise HostError(f"cannot remove links: {reasons}")

    async def links(self) -> frozenset[str]:
        """Return the names of all links of the host."""
        return await self._call(ownlinks.names)

    async def holder(self, address: Address) -> str:
        """Return the name of the link that has the address. Raises HostError when none has."""
        return await self._call(ownlinks.holder, address)

    async def routed(self) -> list[tuple[IPv4Network, str]]:
        """Return where IPv4 packets go: subnets, each with the name of a link of this host."""
        return await self._call(ownlinks.routes)

    async def mtus(self) -> dict[str, int]:
        """Return the MTUs of all links of this host."""
        return await self._call(ownlinks.mtus)

    async def set_pod_mtu(self, host_name: str, ifname: str, netns_path: str, mtu: int) -> None:
        """Give both ends of a pod's link another MTU; the host's last, for it shows what both have.

        Raises HostError.
        """
        await self._call(_set_pod_mtu, host_name, ifname, netns_path, mtu)

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

    async def cards(self, names: Iterable[str]) -> tuple[Card, ...]:
        """Return network cards of this host. Raises HostError if one is absent."""
        return await self._call(ownlinks.cards, list(names))

    async def netns_alive(self, path: str) -> bool:
        """Tell whether the path is, or may be, that of a network namespace, not the host's own."""
        return await self._call(_netns_alive, path)

    async def has_kernel_datapath(self) -> bool:
        """Tell whether the kernel has Open vSwitch's datapath; without it there is userspace's."""
        return await self._call(ownlinks.has_family, _OVS_FAMILY)

    async def _call(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, work, *args)


_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


@contextmanager
def _namespace(path: str) -> Iterator[int]:
    """Open a pod's namespace. Raises HostError when the path is none, or is the host's own."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as exc:
        raise HostError(f"namespace {path}: {exc}") from exc
    try:
        if not _is_netns(descriptor):
            raise HostError(f"{path} is not a network namespace")
        if os.fstat(descriptor).st_ino == Path("/proc/thread-self/ns/net").stat().st_ino:
            raise HostError(f"{path} is the host's own network namespace")
        yield descriptor
    finally:
        os.close(descriptor)


def _is_netns(descriptor: int) -> bool:
    try:
        return fcntl.ioctl(descriptor, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError:
        return False


@contextmanager
def _inside(namespace: int) -> Iterator[None]:
    """Put this thread into a namespace for the body."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(namespace)
        try:
            yield
        finally:
            try:
                _setns(home)
            except OSError:
                # this thread would work on a pod's links in the belief they are the host's
                log.critical("cannot return to the host's network namespace", exc_info=True)
                os._exit(1)
    finally:
        os.close(home)


def _setns(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _add_pod_link(spec: PodLink) -> None:
    what = f"link {spec.host_name} to {spec.ifname} in {spec.netns_path}"
    with _namespace(spec.netns_path) as namespace, netlink.host_errors(what):
        stale = netlink.index_of(spec.host_name)
        if stale is not None:
            netlink.change(netlink.no_link(stale))
        try:
            netlink.change(
                netlink.veth(spec.host_name, spec.ifname, namespace, spec.mtu),
                # the host is no neighbour of its pods
                netlink.without_link_local(spec.host_name),
                unless=errno.EAFNOSUPPORT,
            )
            if spec.tx_off:
                with _inside(namespace):
                    _tx_checksum_off(spec.ifname)
        except OSError:
            made = netlink.index_of(spec.host_name)
            if made is not None:
                netlink.change(netlink.no_link(made))
            raise


def _configure_pod(
    netns_path: str,
    ifname: str,
    mac: str,
    addresses: Sequence[Interface],
    gateways: Sequence[Address],
) -> None:
    with (
        _namespace(netns_path) as namespace,
        netlink.host_errors(f"link {ifname} in {netns_path}"),
        _inside(namespace),
    ):
        index = netlink.required_index(ifname)
        if any(address.version == 6 for address in addresses):
            _enable_ipv6(ifname)
        netlink.change(
            netlink.link_up(netlink.required_index("lo")),
            netlink.link_up(index, mac),
            *(netlink.address(index, address) for address in addresses),
            *(_default_route(index, gateway, addresses) for gateway in gateways),
        )


def _route_pod(netns_path: str, ifname: str, subnet: IPv4Network) -> None:
    what = f"route to {subnet} by {ifname} in {netns_path}"
    with _namespace(netns_path) as namespace, netlink.host_errors(what), _inside(namespace):
        netlink.change(netlink.route(netlink.required_index(ifname), subnet))


def _default_route(index: int, gateway: Address, addresses: Iterable[Interface]) -> bytes:
    reachable = any(gateway in address.network for address in addresses)
    return netlink.default_route(index, gateway, on_link=not reachable)


def _enable_ipv6(ifname: str) -> None:
    switch = Path("/proc/sys/net/ipv6/conf") / ifname / "disable_ipv6"
    if switch.read_text(encoding="ascii").strip() != "0":
        switch.write_text("0", encoding="ascii")


def _tx_checksum_off(ifname: str) -> None:
    with _ioctl_door() as door:
        _ethtool(door, ifname, _ETHTOOL_STXCSUM)


def _ioctl_door() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _ethtool(door: socket.socket, ifname: str, command: int) -> int:
    """Do a command with the value 0; return the value it leaves."""
    value = ctypes.create_string_buffer(struct.pack("II", command, 0), 8)
    request = struct.pack("16sP16x", ifname.encode(), ctypes.addressof(value))
    fcntl.ioctl(door, _SIOCETHTOOL, request)
    return int(struct.unpack("II", value.raw)[1])


def _running(name: str) -> bool:
    """Tell whether a link has a carrier, and the kernel has drawn its conclusions from that."""
    request = struct.pack("16sh14x", name.encode(), 0)
    with netlink.host_errors(f"link {name}"), _ioctl_door() as door:
        carrier = _ethtool(door, name, _ETHTOOL_GLINK)
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(door, _SIOCGIFFLAGS, request))
    return bool(carrier and flags & _IFF_RUNNING)


def _delete_links(names: Collection[str]) -> dict[str, str]:
    """Remove links; return those still there, with the reason."""
    present = {name: index for index, name in socket.if_nameindex() if name in names}
    with netlink.host_errors("links to remove"):
        if len(present) > 1:
            try:
                _delete_group(present.values())
            except OSError as exc:
                log.warning("links are removed one by one", extra={"error": str(exc)})
            else:
                return {}
        return _delete_each(present)


def _delete_group(indexes: Iterable[int]) -> None:
    """Remove many links in one go, by a group nothing else is in."""
    group = secrets.randbits(30) | 1 << 30
    for index in indexes:
        netlink.change(netlink.in_group(index, group), unless=errno.ENODEV)
    netlink.change(netlink.no_group(group))


def _delete_each(links: Mapping[str, int]) -> dict[str, str]:
    stuck: dict[str, str] = {}
    for name, index in links.items():
        try:
            netlink.change(netlink.no_link(index), unless=errno.ENODEV)
        except OSError as exc:
            stuck[name] = str(exc.strerror)
    return stuck


def _set_pod_mtu(host_name: str, ifname: str, netns_path: str, mtu: int) -> None:
    what = f"MTU of {host_name} and {ifname} in {netns_path}"
    with _namespace(netns_path) as namespace, netlink.host_errors(what):
        with _inside(namespace):
            netlink.change(netlink.with_mtu(netlink.required_index(ifname), mtu))
        netlink.change(netlink.with_mtu(netlink.required_index(host_name), mtu))


def _netns_alive(path: str) -> bool:
    try:
        with _namespace(path):
            return True
    except HostError as exc:
        # there may be too many open files, say
        return isinstance(exc.__cause__, OSError) and exc.__cause__.errno not in _NOT_THERE
