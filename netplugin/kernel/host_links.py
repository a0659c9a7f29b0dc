"""Links, addresses and routes of the host itself; `netplugin.kernel.pod_links` has those of pods.

Each function does one piece of work in the namespace of the thread that calls it, and blocks for as
long as the kernel works: `netplugin.kernel.netns` has its threads do it. What is there is read by
pyroute2, changes are requests of `netplugin.kernel.netlink`. What the kernel refuses is a HostError
that names the link.
"""

import socket
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from core.errors import HostError
from netplugin.kernel import netlink
from netplugin.kernel.netlink import Address, Interface

ROUTE_PROTOCOL: Final = 201
"""Who made a route, as the kernel keeps it: a number nobody is known to use."""

_MAIN_TABLE: Final = 254
_SCOPE_LINK: Final = 253
_GLOBAL_SCOPE: Final = 0
_IFF_UP: Final = 0x01
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network card of the host, and what of the host's own traffic is on it.

    `addresses` are those that others can reach, with their prefix lengths.
    """

    name: str
    mac: str
    addresses: tuple[str, ...] = ()
    default_route: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoute:
    """A route of the host over a link of ours; the host speaks as `source` to who is there."""

    subnet: IPv4Network
    source: IPv4Address


def names() -> frozenset[str]:
    """Return the names of all links."""
    return frozenset(name for _, name in socket.if_nameindex())


def mtus() -> dict[str, int]:
    """Return the MTUs of all links."""
    with netlink.host_errors("cannot look at the links"), _iproute() as iproute:
        return {str(link.get("ifname")): int(link.get("mtu")) for link in iproute.get_links()}


def configure(name: str, mac: str, addresses: Sequence[Interface]) -> None:
    """Bring a link up with MAC and addresses; other IPv4 ones of it go."""
    with netlink.host_errors(f"link {name}"), _iproute() as iproute:
        index = netlink.required_index(name)
        (link,) = iproute.get_links(index)
        if link.get_attr("IFLA_ADDRESS") != mac or not link["flags"] & _IFF_UP:
            # the switch looks at all of its ports whenever a link is told anything
            netlink.change(netlink.link_up(index, mac))
        _correct_addresses(iproute, index, addresses)


def _correct_addresses(iproute: Any, index: int, wanted: Sequence[Interface]) -> None:
    """Have a link hold these addresses; they bring no routes with them."""
    right = {(str(address.ip), address.network.prefixlen): address for address in wanted}
    for held in iproute.get_addr(index=index):
        address = held.get("local") or held.get("address"), held["prefixlen"]
        if right.pop(address, None) is None and held["family"] == socket.AF_INET:
            iproute.addr("del", index=index, address=address[0], prefixlen=address[1])
    netlink.change(*(netlink.address(index, held, routed=False) for held in right.values()))


def ensure_routes(name: str, routes: Collection[HostRoute]) -> None:
    """Have these routes over a link, and no other IPv4 ones."""
    with netlink.host_errors(f"routes of link {name}"), _iproute() as iproute:
        index = netlink.required_index(name)
        missing = {(str(route.subnet), str(route.source)) for route in routes}
        for held in iproute.get_routes(family=socket.AF_INET, oif=index, table=_MAIN_TABLE):
            subnet = f"{held.get('dst') or '0.0.0.0'}/{held['dst_len']}"
            ours = subnet, held.get("prefsrc")
            if held["proto"] == ROUTE_PROTOCOL and ours in missing:
                missing.remove(ours)
            else:
                which = {"proto": held["proto"], "scope": held["scope"]}
                iproute.route("del", dst=subnet, oif=index, **which)
        _add_routes(iproute, index, missing)


def _add_routes(iproute: Any, index: int, wanted: Iterable[tuple[str, str]]) -> None:
    """Add routes to subnets, each with its source; one that is refused stops no other."""
    ours = {"oif": index, "proto": ROUTE_PROTOCOL, "scope": _SCOPE_LINK}
    refused: NetlinkError | None = None
    for subnet, source in sorted(wanted):
        try:
            iproute.route("add", dst=subnet, prefsrc=source, **ours)
        except NetlinkError as exc:
            refused = exc
    if refused is not None:
        raise refused


def routes() -> list[tuple[IPv4Network, str]]:
    """Return where IPv4 packets go: subnets, each with the name of a link."""
    with netlink.host_errors("cannot look at the routes"), _iproute() as iproute:
        links = {link["index"]: str(link.get("ifname")) for link in iproute.get_links()}
        return [
            (IPv4Network((route.get("dst") or "0.0.0.0", route["dst_len"])), links[way])
            for route in iproute.get_routes(family=socket.AF_INET, table=_MAIN_TABLE)
            for way in _ways(route)
            if way in links
        ]


def cards(wanted: Iterable[str]) -> tuple[Nic, ...]:
    """Return network cards by name."""
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
        default_route=any(index in _ways(route) for route in routes),
    )


def _ways(route: Any) -> set[int]:
    """Return the links a route goes by, with those of its several next hops."""
    hops = route.get_attr("RTA_MULTIPATH") or ()
    return {route.get_attr("RTA_OIF"), *(hop["oif"] for hop in hops)}


def holder(address: Address) -> str:
    """Return the name of the link that has the address."""
    with netlink.host_errors(f"link with address {address}"), _iproute() as iproute:
        for held in iproute.get_addr():
            if held.get("address") == str(address):
                (link,) = iproute.link("get", index=held["index"])
                return str(link.get("ifname"))
    raise HostError(f"no link of this host has the address {address}")


def has_family(name: str) -> bool:
    """Tell whether the kernel speaks a family of generic netlink."""
    with GenericNetlinkSocket() as generic:
        try:
            generic.bind(name, None)
        except NetlinkError:
            return False
        return True


def _iproute() -> Any:
    return IPRoute(groups=0)
