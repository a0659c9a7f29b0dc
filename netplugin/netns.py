"""Links, addresses and namespaces of this host: the only module that imports pyroute2 (design D7).

In come names, paths and addresses, out go interfaces as the kernel has them; `netplugin.pods`
decides which. Netlink blocks for as long as the kernel works, so each call runs in a small pool of
threads, removals in a thread of their own. What the kernel refuses is a HostError that names link
and namespace.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from core.errors import HostError

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface

_CLONE_NEWNET: Final = 0x4000_0000
_NS_GET_NSTYPE: Final = 0xB703
ROUTE_PROTOCOL: Final = 201
"""Who made a route, as the kernel keeps it: a number nobody is known to use."""

_IFA_F_NODAD: Final = 0x02
_IFA_F_NOPREFIXROUTE: Final = 0x200
_MAIN_TABLE: Final = 254
_SCOPE_LINK: Final = 253
_IFF_UP: Final = 0x01
_RTNH_F_ONLINK: Final = 4
_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_STXCSUM: Final = 0x17
_OVS_FAMILY: Final = "ovs_datapath"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoute:
    """A route of the host over a link of ours; the host speaks as `source` to who is there."""

    subnet: IPv4Network
    source: IPv4Address


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

    async def configure_host_link(
        self, name: str, mac: str, addresses: Sequence[Interface]
    ) -> None:
        """Bring a link of the host up with MAC and addresses; other IPv4 ones of it go.

        Routes are `ensure_routes`' alone: the kernel adds none for an IPv4 address.
        """
        await self._call(_configure_host_link, name, mac, addresses)

    async def ensure_routes(self, name: str, routes: Collection[HostRoute]) -> None:
        """Have these routes over a link of ours, and no other IPv4 ones.

        Raises HostError when somebody else has a route to one of the subnets.
        """
        await self._call(_ensure_routes, name, routes)

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
        return await self._call(_links)

    async def mtu_of_address(self, address: Address) -> int:
        """Return the MTU of the link that has the address. Raises HostError when none has."""
        return await self._call(_mtu_of_address, address)

    async def macs(self, names: Iterable[str]) -> dict[str, str]:
        """Return the MAC address of each link of this host. Raises HostError if one is absent."""
        return await self._call(_macs, list(names))

    async def netns_alive(self, path: str) -> bool:
        """Tell whether the path is that of a network namespace, not the host's own."""
        return await self._call(_netns_alive, path)

    async def has_kernel_datapath(self) -> bool:
        """Tell whether the kernel has Open vSwitch's datapath; without it there is userspace's."""
        return await self._call(_has_family, _OVS_FAMILY)

    async def _call(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, work, *args)


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


@contextmanager
def _host_errors(what: str) -> Iterator[None]:
    try:
        yield
    except NetlinkError as exc:
        raise HostError(f"{what}: {os.strerror(exc.code)}") from exc
    except OSError as exc:
        raise HostError(f"{what}: {exc.strerror or exc}") from exc


def _netlink() -> Any:
    return IPRoute(groups=0)


def _add_pod_link(spec: PodLink) -> None:
    what = f"link {spec.host_name} to {spec.ifname} in {spec.netns_path}"
    with _namespace(spec.netns_path) as namespace, _host_errors(what), _netlink() as netlink:
        stale = _index(spec.host_name)
        if stale is not None:
            netlink.link("del", index=stale)
        peer = {"ifname": spec.ifname, "net_ns_fd": namespace, "mtu": spec.mtu}
        netlink.link("add", ifname=spec.host_name, kind="veth", mtu=spec.mtu, state="up", peer=peer)
        if spec.tx_off:
            try:
                with _inside(namespace):
                    _tx_checksum_off(spec.ifname)
            except OSError:
                netlink.link("del", index=_index(spec.host_name))
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
        _host_errors(f"link {ifname} in {netns_path}"),
        _inside(namespace),
        _netlink() as netlink,
    ):
        netlink.link("set", index=_required_index("lo"), state="up")
        index = _required_index(ifname)
        if any(address.version == 6 for address in addresses):
            _enable_ipv6(ifname)
        netlink.link("set", index=index, address=mac, state="up")
        _add_addresses(netlink, index, addresses)
        for gateway in gateways:
            _replace_default_route(netlink, index, gateway, addresses)


def _configure_host_link(name: str, mac: str, addresses: Sequence[Interface]) -> None:
    with _host_errors(f"link {name}"), _netlink() as netlink:
        index = _required_index(name)
        (link,) = netlink.get_links(index)
        if link.get_attr("IFLA_ADDRESS") != mac or not link["flags"] & _IFF_UP:
            # the switch looks at all of its ports whenever a link is told anything
            netlink.link("set", index=index, address=mac, state="up")
        _remove_addresses(netlink, index, except_for=addresses)
        _add_addresses(netlink, index, addresses, flags=_IFA_F_NOPREFIXROUTE)


def _remove_addresses(netlink: Any, index: int, except_for: Collection[Interface]) -> None:
    kept = {(str(address.ip), address.network.prefixlen) for address in except_for}
    for held in netlink.get_addr(family=socket.AF_INET, index=index):
        if (held.get("local"), held["prefixlen"]) not in kept:
            netlink.addr("del", index=index, address=held.get("local"), prefixlen=held["prefixlen"])


def _ensure_routes(name: str, routes: Collection[HostRoute]) -> None:
    with _host_errors(f"routes of link {name}"), _netlink() as netlink:
        index = _required_index(name)
        missing = {(str(route.subnet), str(route.source)) for route in routes}
        for held in netlink.get_routes(family=socket.AF_INET, oif=index, table=_MAIN_TABLE):
            subnet = f"{held.get('dst')}/{held['dst_len']}"
            ours = subnet, held.get("prefsrc")
            if held["proto"] == ROUTE_PROTOCOL and ours in missing:
                missing.remove(ours)
            else:
                which = {"proto": held["proto"], "scope": held["scope"]}
                netlink.route("del", dst=subnet, oif=index, **which)
        for subnet, source in sorted(missing):
            netlink.route(
                "add",
                dst=subnet,
                oif=index,
                prefsrc=source,
                proto=ROUTE_PROTOCOL,
                scope=_SCOPE_LINK,
            )


def _add_addresses(netlink: Any, index: int, addresses: Iterable[Interface], **more: int) -> None:
    for address in addresses:
        # with duplicate address detection an IPv6 address cannot be used for 1.4 s
        flags = {"flags": _IFA_F_NODAD} if address.version == 6 else more
        try:
            netlink.addr(
                "add",
                index=index,
                address=str(address.ip),
                prefixlen=address.network.prefixlen,
                **flags,
            )
        except NetlinkError as exc:
            if exc.code != errno.EEXIST:
                raise


def _replace_default_route(
    netlink: Any, index: int, gateway: Address, addresses: Iterable[Interface]
) -> None:
    reachable = any(gateway in address.network for address in addresses)
    netlink.route(
        "replace",
        family=socket.AF_INET if gateway.version == 4 else socket.AF_INET6,
        dst="default",
        gateway=str(gateway),
        oif=index,
        flags=0 if reachable else _RTNH_F_ONLINK,
    )


def _enable_ipv6(ifname: str) -> None:
    switch = Path("/proc/sys/net/ipv6/conf") / ifname / "disable_ipv6"
    if switch.read_text(encoding="ascii").strip() != "0":
        switch.write_text("0", encoding="ascii")


def _tx_checksum_off(ifname: str) -> None:
    value = ctypes.create_string_buffer(struct.pack("II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP16x", ifname.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        fcntl.ioctl(door, _SIOCETHTOOL, request)


def _delete_links(names: Collection[str]) -> dict[str, str]:
    """Remove links; return those still there, with the reason."""
    present = {name: index for index, name in socket.if_nameindex() if name in names}
    with _host_errors("links to remove"), _netlink() as netlink:
        if len(present) > 1:
            try:
                _delete_group(netlink, present.values())
            except NetlinkError as exc:
                log.warning("links are removed one by one", extra={"error": str(exc)})
            else:
                return {}
        return _delete_each(netlink, present)


def _delete_group(netlink: Any, indexes: Iterable[int]) -> None:
    """Remove many links in one go, by a group nothing else is in."""
    group = secrets.randbits(30) | 1 << 30
    for index in indexes:
        try:
            netlink.link("set", index=index, group=group)
        except NetlinkError as exc:
            if exc.code != errno.ENODEV:
                raise
    netlink.link("del", group=group)


def _delete_each(netlink: Any, links: Mapping[str, int]) -> dict[str, str]:
    stuck: dict[str, str] = {}
    for name, index in links.items():
        try:
            netlink.link("del", index=index)
        except NetlinkError as exc:
            if exc.code != errno.ENODEV:
                stuck[name] = os.strerror(exc.code)
    return stuck


def _links() -> frozenset[str]:
    return frozenset(name for _, name in socket.if_nameindex())


def _index(name: str) -> int | None:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def _required_index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as exc:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from exc


def _macs(names: Iterable[str]) -> dict[str, str]:
    found = {}
    with _host_errors("cannot look at the uplinks"), _netlink() as netlink:
        for name in names:
            (link,) = netlink.get_links(_required_index(name))
            found[name] = str(link.get_attr("IFLA_ADDRESS"))
    return found


def _mtu_of_address(address: Address) -> int:
    with _host_errors(f"link with address {address}"), _netlink() as netlink:
        for held in netlink.get_addr():
            if held.get("address") == str(address):
                (link,) = netlink.link("get", index=held["index"])
                return int(link.get("mtu"))
    raise HostError(f"no link of this host has the address {address}")


def _netns_alive(path: str) -> bool:
    try:
        with _namespace(path):
            return True
    except HostError:
        return False


def _has_family(name: str) -> bool:
    """Tell whether the kernel speaks a family of generic netlink."""
    with GenericNetlinkSocket() as netlink:
        try:
            netlink.bind(name, None)
        except NetlinkError:
            return False
        return True
