"""Links of pods; `netplugin.kernel.links.host_links` has those of the host itself.

Each function works in the host's network namespace and, where necessary, in the pod's
(`netplugin.kernel.links.namespaces`), and blocks while the kernel works: `netplugin.kernel.netns`
calls it in a thread pool. Changes are requests of `netplugin.kernel.netlink.requests`. A refusal of
the kernel is a HostError that names link and namespace.
"""

import ctypes
import errno
import fcntl
import logging
import secrets
import socket
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from core.errors import HostError
from netplugin.kernel.links import namespaces, pod_link_state, receive_limit
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netlink.requests import Address, Interface

log = logging.getLogger(__name__)

_SIOCGIFFLAGS: Final = 0x8913
_IFF_UP: Final = 0x01
_IFF_RUNNING: Final = 0x40
_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_GLINK: Final = 0x0A
_ETHTOOL_STXCSUM: Final = 0x17


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLink:
    """A veth pair to create: its ends by name, the pod's in the namespace at `netns_path`.

    "" is the host's own namespace: an engine moves the pod's end from there, and it stays down.
    `tx_off` disables checksum offload in the pod: the userspace datapath computes no checksums, and
    TCP would hang. `rate` and `burst` limit what the pod receives (`receive_limit`); a rate of 0 is
    no limit.
    """

    host_name: str
    ifname: str
    netns_path: str
    mtu: int
    tx_off: bool = False
    rate: int = 0
    burst: int = 0


@dataclass(frozen=True, slots=True)
class KeptUp:
    """What became of links that are to be up: set up now, not there, refused with the reason."""

    set_up: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)


def add(spec: PodLink) -> None:
    """Create the veth pair, its host end up; first delete a link of the host end's name."""
    what = f"link {spec.host_name} to {spec.ifname} in {spec.netns_path or 'the host'}"
    with _namespace(spec.netns_path) as namespace, netlink.host_errors(what):
        stale = netlink.index_of(spec.host_name)
        if stale is not None:
            netlink.change(netlink.no_link(stale))
        # The peer is created in the pod's namespace: moving a link there takes the kernel 17 ms.
        try:
            netlink.change(netlink.veth(spec.host_name, spec.ifname, namespace, spec.mtu))
            _leave_to_switch(spec.host_name)
            if spec.rate:
                receive_limit.put(spec.host_name, spec.rate, spec.burst)
            if spec.tx_off:
                with namespaces.inside(namespace):
                    _tx_checksum_off(spec.ifname)
        except OSError:
            made = netlink.index_of(spec.host_name)
            if made is not None:
                netlink.change(netlink.no_link(made))
            raise


def _namespace(path: str) -> AbstractContextManager[int]:
    return namespaces.opened(path) if path else namespaces.home()


def _leave_to_switch(name: str) -> None:
    """Disable IP processing on the pod's host-side link, before its carrier brings an address."""
    # With the userspace datapath the kernel sees a frame of the pod as well as the switch does. A
    # pod that learns the MAC address of its link's host end would reach the host by it, past all
    # flows. IPv4 itself is dropped by a rule of `netplugin.bridges.guards.pod_guard`.
    for family, switch, value in (("ipv4", "arp_ignore", "8"), ("ipv6", "disable_ipv6", "1")):
        path = Path("/proc/sys/net") / family / "conf" / name / switch
        with suppress(FileNotFoundError):  # a host without IPv6
            path.write_text(value, encoding="ascii")


def _tx_checksum_off(ifname: str) -> None:
    with _ioctl_socket() as sock:
        _ethtool(sock, ifname, _ETHTOOL_STXCSUM)


def configure(
    netns_path: str,
    ifname: str,
    mac: str,
    addresses: Sequence[Interface],
    gateways: Sequence[Address],
) -> None:
    """Bring the pod's end up with its addresses and default routes, and loopback with it."""
    with (
        namespaces.opened(netns_path) as namespace,
        netlink.host_errors(f"link {ifname} in {netns_path}"),
        namespaces.inside(namespace),
    ):
        index = netlink.required_index(ifname)
        if any(address.version == 6 for address in addresses):
            enable_ipv6(ifname)
        netlink.change(
            netlink.link_up(netlink.required_index("lo")),
            netlink.link_up(index, mac),
            *(netlink.address(index, address) for address in addresses),
            *(_default_route(index, gateway, addresses) for gateway in gateways),
        )


def _default_route(index: int, gateway: Address, addresses: Iterable[Interface]) -> bytes:
    reachable = any(gateway in address.network for address in addresses)
    return netlink.default_route(index, gateway, on_link=not reachable)


def enable_ipv6(ifname: str) -> None:
    """Have a link of this namespace process IPv6. Raises OSError, also on a host without it."""
    switch = Path("/proc/sys/net/ipv6/conf") / ifname / "disable_ipv6"
    if switch.read_text(encoding="ascii").strip() != "0":
        switch.write_text("0", encoding="ascii")


def route(netns_path: str, ifname: str, subnet: IPv4Network) -> None:
    """Add a directly connected route to a pod: addresses of the subnet are resolved on the link."""
    what = f"route to {subnet} by {ifname} in {netns_path}"
    with (
        namespaces.opened(netns_path) as namespace,
        netlink.host_errors(what),
        namespaces.inside(namespace),
    ):
        netlink.change(netlink.route(netlink.required_index(ifname), subnet))


def set_mtu(host_name: str, ifname: str, netns_path: str, mtu: int) -> None:
    """Set the MTU of both ends, the host's last."""
    what = f"MTU of {host_name} and {ifname} in {netns_path}"
    with namespaces.opened(netns_path) as namespace, netlink.host_errors(what):
        with namespaces.inside(namespace):
            netlink.change(netlink.with_mtu(netlink.required_index(ifname), mtu))
        netlink.change(netlink.with_mtu(netlink.required_index(host_name), mtu))


def set_peer_mtu(host_name: str, netns_path: str, mtu: int) -> None:
    """As `set_mtu`, for a link whose other end has a name that only the engine knows."""
    what = f"MTU of {host_name} and its peer in {netns_path or 'the host'}"
    own = pod_link_state.ends(host_name)
    with _namespace(netns_path) as namespace, netlink.host_errors(what):
        with namespaces.inside(namespace):
            # An index means something in its namespace alone: this one may be of another link,
            # while the engine moves the peer.
            if own is None or not pod_link_state.is_peer(own):
                raise HostError(f"{what}: no such link")
            netlink.change(netlink.with_mtu(own.peer, mtu))
        netlink.change(netlink.with_mtu(own.index, mtu))


def running(name: str) -> bool:
    """Return whether a link has a carrier and the kernel has marked it as running."""
    with netlink.host_errors(f"link {name}"), _ioctl_socket() as sock:
        carrier = _ethtool(sock, name, _ETHTOOL_GLINK)
        return bool(carrier and _flags(sock, name) & _IFF_RUNNING)


def keep_up(names: Iterable[str]) -> KeptUp:
    """Set links of this host up that are down; tell which are missing."""
    # Asked one by one, which takes microseconds: every pod that comes or goes is a reason to ask.
    set_up, missing, refused = set(), set(), {}
    with netlink.host_errors("links of pods"), _ioctl_socket() as sock:
        for name in names:
            try:
                if not _flags(sock, name) & _IFF_UP:
                    netlink.change(netlink.link_up(netlink.required_index(name)))
                    set_up.add(name)
            except OSError as exc:
                if exc.errno == errno.ENODEV:
                    missing.add(name)
                else:
                    refused[name] = exc.strerror or str(exc)
    return KeptUp(frozenset(set_up), frozenset(missing), refused)


def _flags(sock: socket.socket, name: str) -> int:
    request = struct.pack("16sh14x", name.encode(), 0)
    (flags,) = struct.unpack_from("16xh", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))
    return int(flags)


def _ioctl_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _ethtool(sock: socket.socket, ifname: str, command: int) -> int:
    """Run an ethtool command with the value 0; return the resulting value."""
    value = ctypes.create_string_buffer(struct.pack("II", command, 0), 8)
    request = struct.pack("16sP16x", ifname.encode(), ctypes.addressof(value))
    fcntl.ioctl(sock, _SIOCETHTOOL, request)
    return int(struct.unpack("II", value.raw)[1])


def delete(names: Collection[str]) -> dict[str, str]:
    """Delete links; return those that could not be deleted, with the reason."""
    with netlink.host_errors("links to remove"):
        present = {name: index for index, name in socket.if_nameindex() if name in names}
        if len(present) > 1:
            try:
                _delete_group(present.values())
            except OSError as exc:
                log.warning(
                    "links not removed as a group, removing one by one", extra={"error": str(exc)}
                )
            else:
                return {}
        return _delete_each(present)


def _delete_group(indexes: Iterable[int]) -> None:
    """Delete many links in one request, by a group of their own."""
    # The kernel takes some 20 ms for a deletion, however many links it covers. The group number is
    # random, and large, so that it is no other program's.
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
