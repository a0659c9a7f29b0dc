"""Links and addresses of the host itself; `netplugin.kernel.links.pod_links` has those of pods.

The agent's routes are in `netplugin.kernel.routes.route_table`.

Each function works in the network namespace of the calling thread and blocks while the kernel
works: `netplugin.kernel.netns` calls it in a thread pool. State is read by pyroute2, changes are
requests of `netplugin.kernel.netlink.requests`. A refusal of the kernel is a HostError that names
the link.
"""

import errno
import fcntl
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Address, IPv6Interface
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket
from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_DEPRECATED

from core.errors import HostError
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netlink.requests import Address, Interface
from netplugin.kernel.routes.route_table import has_ipv6_on

_DEFAULT: Final = "0.0.0.0"  # nosec B104 - the default route's destination, not a listener
_MAIN_TABLE: Final = 254
_SCOPE_LINK: Final = 253
_GLOBAL_SCOPE: Final = 0
_IFF_UP: Final = 0x01
_SIOCGIFMTU: Final = 0x8921
_IFREQ: Final = struct.Struct("16si20x")
"""A link's name and a number (netdevice(7))."""
_NO_BROADCAST: Final = 31
"""The shortest prefix of subnets without broadcasts (RFC 3021)."""
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A NIC of the host, with its global addresses (and prefix lengths) and its default route."""

    name: str
    mac: str
    addresses: tuple[str, ...] = ()
    default_route: bool = False


def names() -> frozenset[str]:
    """Return the names of all links."""
    with netlink.host_errors("cannot read the links"):
        return frozenset(name for _, name in socket.if_nameindex())


def mtus() -> dict[str, int]:
    """Return the MTUs of all links."""
    # Asked one by one, which takes microseconds: to decode all links takes a millisecond for each,
    # and every pod that comes or goes is a reason to ask.
    found = {}
    with (
        netlink.host_errors("cannot read the links"),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it is gone meanwhile
                answer = fcntl.ioctl(sock, _SIOCGIFMTU, _IFREQ.pack(name.encode(), 0))
                _, found[name] = _IFREQ.unpack(answer)
    return found


def configure(name: str, mac: str, addresses: Sequence[Interface]) -> None:
    """Bring a link up with MAC and addresses; remove its other IPv4 addresses.

    Where the link has no IPv6 it gets no address of that. Of IPv6 addresses those are removed that
    were set here before: the kernel and the administrator have others.
    """
    with netlink.host_errors(f"link {name}"), _iproute() as iproute:
        index = netlink.required_index(name)
        (link,) = iproute.get_links(index)
        if link.get_attr("IFLA_ADDRESS") != mac or not link["flags"] & _IFF_UP:
            # Only if it differs: each change of a link makes ovs-vswitchd check all of its ports.
            netlink.change(netlink.link_up(index, mac))
        has_ipv6 = has_ipv6_on(name)
        possible = [one for one in addresses if has_ipv6 or one.version == 4]
        _correct_addresses(iproute, index, possible)


def _correct_addresses(iproute: Any, index: int, wanted: Sequence[Interface]) -> None:
    """Set the addresses of a link, without the routes that the kernel would add."""
    right = {(str(address.ip), address.network.prefixlen): address for address in wanted}
    for held in iproute.get_addr(index=index):
        address = held.get("local") or held.get("address"), held["prefixlen"]
        if right.pop(address, None) is not None:
            continue
        if held["family"] == socket.AF_INET:
            netlink.change(netlink.no_address(index, IPv4Interface(address)))
        elif _is_set_here(held):
            netlink.change(netlink.no_address(index, IPv6Interface(address)))
    netlink.change(*(netlink.address(index, held, routed=False) for held in right.values()))


def _is_set_here(held: Any) -> bool:
    """Return whether an IPv6 address is one of `_correct_addresses`, and none of `ensure_source`.

    No other program is known to set addresses with these flags on links of the agent.
    """
    flags = held.get_attr("IFA_FLAGS") or 0
    without_route = flags & netlink.WITHOUT_ROUTE6 == netlink.WITHOUT_ROUTE6
    return without_route and not flags & IFA_F_DEPRECATED


def ensure_source(name: str, source: IPv6Address) -> None:
    """Give a link an address that the kernel takes where a route names it; none without IPv6."""
    with netlink.host_errors(f"link {name}"), _iproute() as iproute:
        if not has_ipv6_on(name):
            return
        index = netlink.required_index(name)
        # Only if it is missing: each event of an address makes ovs-vswitchd check its ports.
        if not any(_is_source(held, source) for held in iproute.get_addr(index=index)):
            held = IPv6Interface(source)
            netlink.change(netlink.address(index, held, routed=False, deprecated=True))


def _is_source(held: Any, source: IPv6Address) -> bool:
    flags = held.get("flags") or 0
    return held.get("address") == str(source) and bool(flags & IFA_F_DEPRECATED)


def ensure_neighbours(name: str, macs: Mapping[Address, str]) -> None:
    """Set permanent neighbours behind a link, for routes `via` them: they are never asked.

    Where the link has no IPv6 there are none of that.
    """
    with netlink.host_errors(f"neighbours of link {name}"):
        index, has_ipv6 = netlink.required_index(name), has_ipv6_on(name)
        possible = (one for one in macs.items() if has_ipv6 or one[0].version == 4)
        netlink.change(*(netlink.neighbour(index, *one) for one in possible))


def routes() -> list[tuple[IPv4Network, str]]:
    """Return the IPv4 routes: subnets, each with the name of a link."""
    with netlink.host_errors("cannot read the routes"), _iproute() as iproute:
        links = {link["index"]: str(link.get("ifname")) for link in iproute.get_links()}
        return [
            (IPv4Network((route.get("dst") or _DEFAULT, route["dst_len"])), links[index])
            for route in iproute.get_routes(family=socket.AF_INET, table=_MAIN_TABLE)
            for index in _route_links(route)
            if index in links
        ]


def picture() -> dict[str, list[str]]:
    """Return the links, addresses and routes of the host, a line of text for each."""
    with netlink.host_errors("cannot read links and routes"), _iproute() as iproute:
        found = {link["index"]: link for link in iproute.get_links()}
        links = {index: str(link.get("ifname")) for index, link in found.items()}
        return {
            "links": [
                f"{links[index]} mtu {link.get('mtu')} state {link.get('state')}"
                f" address {link.get('address')}"
                for index, link in found.items()
            ],
            "addresses": [
                f"{links.get(held['index'])} {held.get('address')}/{held['prefixlen']}"
                for held in iproute.get_addr()
            ],
            "routes": [
                f"{route.get('dst') or 'default'}/{route['dst_len']}"
                f" via {route.get('gateway')} dev {links.get(index)}"
                f" table {route.get('table')} metric {route.get('priority')}"
                for family in _FAMILIES
                for route in iproute.get_routes(family=family)
                for index in _route_links(route)
            ],
        }


_DROPPING: Final = {errno.EINVAL: "blackhole", errno.EACCES: "prohibit"}
"""What the kernel says of an address whose route drops."""


def link_towards(address: Address) -> str:
    """Return the name of the link by which the host sends to an address, "" without a route.

    Raises HostError for a route that drops (ip-route(8)).
    """
    with netlink.host_errors(f"route to {address}"), _iproute() as iproute:
        try:
            (route,) = iproute.route("get", dst=str(address))
        except NetlinkError as exc:
            if exc.code in {errno.ENETUNREACH, errno.EHOSTUNREACH}:
                return ""
            if (kind := _DROPPING.get(exc.code)) is not None:
                raise HostError(
                    f"a {kind} route of this host drops what it sends to {address}: look at "
                    f"`ip route get {address}` and `ip route show type {kind}`"
                ) from exc
            raise
        (link,) = iproute.link("get", index=route.get_attr("RTA_OIF"))
        return str(link.get("ifname"))


def ways(addresses: Sequence[Address]) -> dict[Address, tuple[str, Address | None]]:
    """Return the link by which the host sends to each address, "" for none, and the next hop."""
    with netlink.host_errors("cannot ask for routes"):
        names = dict(socket.if_nameindex())
        found = netlink.ways(addresses)
    nowhere = netlink.RouteWay(0, None)
    return {
        one: (names.get(way.link, ""), way.via)
        for one in addresses
        for way in (found.get(one, nowhere),)
    }


def drop_addresses(wrong: Callable[[Interface, str], bool]) -> list[str]:
    """Remove IPv4 addresses of links, which `wrong` tells by the address and the link's MAC."""
    with netlink.host_errors("cannot remove addresses"), _iproute() as iproute:
        macs = {link["index"]: str(link.get("address")) for link in iproute.get_links()}
        dropped = []
        for held in iproute.get_addr(family=socket.AF_INET):
            address, length = held.get("local") or held.get("address"), held["prefixlen"]
            index = held["index"]
            if wrong(IPv4Interface((address, length)), macs.get(index, "")):
                netlink.change(netlink.no_address(index, IPv4Interface((address, length))))
                dropped.append(f"{address}/{length}")
        return dropped


def cards(wanted: Iterable[str]) -> tuple[Nic, ...]:
    """Return NICs by name."""
    found = []
    for name in wanted:
        with netlink.host_errors(f"uplink {name}"), _iproute() as iproute:
            found.append(_card(iproute, name, netlink.required_index(name)))
    return tuple(found)


def _card(iproute: Any, name: str, index: int) -> Nic:
    (link,) = iproute.get_links(index)
    addresses = iproute.get_addr(index=index)
    routes = [route for family in _FAMILIES for route in iproute.get_default_routes(family=family)]
    return Nic(
        name=name,
        mac=str(link.get_attr("IFLA_ADDRESS")),
        addresses=tuple(
            f"{held.get('address')}/{held['prefixlen']}"
            for held in addresses
            if held["scope"] == _GLOBAL_SCOPE
        ),
        default_route=any(index in _route_links(route) for route in routes),
    )


def _route_links(route: Any) -> set[int]:
    """Return the link indexes of a route, including those of a multipath route."""
    hops = route.get_attr("RTA_MULTIPATH") or ()
    return {route.get_attr("RTA_OIF"), *(hop["oif"] for hop in hops)}


def holder(address: Address) -> str:
    """Return the name of the link that has the address."""
    with netlink.host_errors(f"link with address {address}"):
        for index, held in [*netlink.held_addresses()]:
            if held == address:
                return socket.if_indextoname(index)
    raise HostError(f"no link of this host has the address {address}")


def addresses(is_pods: Callable[[str], bool]) -> frozenset[str]:
    """Return the addresses of this host, and those at which broadcasts reach it.

    Without link-local ones of pods' links, which `is_pods` tells by name: there are many, and no
    packet reaches them.
    """
    with netlink.host_errors("cannot read the addresses of this host"), _iproute() as iproute:
        links = {link["index"]: str(link.get("ifname")) for link in iproute.get_links()}
        found = set()
        for held in iproute.get_addr():
            # An address without a link is that of a link which was made after the links were read,
            # by an ADD in most cases. Its removal would not be noticed (`_concerns_addresses`).
            name = links.get(held["index"])
            if held["scope"] == _SCOPE_LINK and (name is None or is_pods(name)):
                continue
            for kind in ("local", "address", "broadcast"):
                found.add(str(held.get(kind) or ""))
            found.update(_broadcasts(held))
    return frozenset(found - {""})


def _broadcasts(held: Any) -> Iterator[str]:
    """Yield the addresses by which a subnet's broadcasts reach its address on this host.

    The kernel takes them by its routes, whether the address names a broadcast or not.
    """
    if held["family"] == socket.AF_INET and held["prefixlen"] < _NO_BROADCAST:
        subnet = IPv4Network((held.get("address"), held["prefixlen"]), strict=False)
        yield str(subnet.broadcast_address)
        yield str(subnet.network_address)  # taken for one by kernels before 5.14


def own_addresses() -> frozenset[str]:
    """Return the addresses of this host that others may know it by: no loopback, no link-local."""
    with netlink.host_errors("cannot read the addresses of this host"), _iproute() as iproute:
        held = [one for one in iproute.get_addr() if one["scope"] < _SCOPE_LINK]
        # of a point-to-point link `address` is the other end's
        return frozenset(str(one.get("local") or one.get("address")) for one in held)


def has_family(name: str) -> bool:
    """Tell whether the kernel has a generic netlink family."""
    with netlink.host_errors("cannot ask the kernel"), GenericNetlinkSocket() as generic:
        try:
            generic.bind(name, None)
        except NetlinkError:
            return False
        return True


def _iproute() -> Any:
    # Within `host_errors`: without a free file descriptor this is an OSError.
    return IPRoute(groups=0)
