"""Links, addresses and routes of the host itself; `netplugin.kernel.pod_links` has those of pods.

Each function works in the network namespace of the calling thread and blocks while the kernel
works: `netplugin.kernel.netns` calls it in a thread pool. State is read by pyroute2, changes are
requests of `netplugin.kernel.netlink`. A refusal of the kernel is a HostError that names the link.
"""

import socket
from collections.abc import Callable, Collection, Iterable, Sequence
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
"""The protocol number that marks routes of this agent; no other program is known to use it."""

_MAIN_TABLE: Final = 254
_SCOPE_LINK: Final = 253
_GLOBAL_SCOPE: Final = 0
_IFF_UP: Final = 0x01
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A NIC of the host, with its global addresses (and prefix lengths) and its default route."""

    name: str
    mac: str
    addresses: tuple[str, ...] = ()
    default_route: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoute:
    """A route of the host by one of the agent's links, with its preferred source address."""

    subnet: IPv4Network
    source: IPv4Address


def names() -> frozenset[str]:
    """Return the names of all links."""
    with netlink.host_errors("cannot read the links"):
        return frozenset(name for _, name in socket.if_nameindex())


def mtus() -> dict[str, int]:
    """Return the MTUs of all links."""
    with netlink.host_errors("cannot read the links"), _iproute() as iproute:
        return {str(link.get("ifname")): int(link.get("mtu")) for link in iproute.get_links()}


def configure(name: str, mac: str, addresses: Sequence[Interface]) -> None:
    """Bring a link up with MAC and addresses; remove its other IPv4 addresses."""
    with netlink.host_errors(f"link {name}"), _iproute() as iproute:
        index = netlink.required_index(name)
        (link,) = iproute.get_links(index)
        if link.get_attr("IFLA_ADDRESS") != mac or not link["flags"] & _IFF_UP:
            # Only if it differs: each change of a link makes ovs-vswitchd check all of its ports.
            netlink.change(netlink.link_up(index, mac))
        _correct_addresses(iproute, index, addresses)


def _correct_addresses(iproute: Any, index: int, wanted: Sequence[Interface]) -> None:
    """Set the addresses of a link, without the routes that the kernel would add."""
    right = {(str(address.ip), address.network.prefixlen): address for address in wanted}
    for held in iproute.get_addr(index=index):
        address = held.get("local") or held.get("address"), held["prefixlen"]
        if right.pop(address, None) is None and held["family"] == socket.AF_INET:
            iproute.addr("del", index=index, address=address[0], prefixlen=address[1])
    netlink.change(*(netlink.address(index, held, routed=False) for held in right.values()))


def ensure_routes(name: str, routes: Collection[HostRoute]) -> None:
    """Set the IPv4 routes by a link; remove all others."""
    with netlink.host_errors(f"routes of link {name}"), _iproute() as iproute:
        index = netlink.required_index(name)
        missing = {(str(route.subnet), str(route.source)) for route in routes}
        for held in iproute.get_routes(family=socket.AF_INET, oif=index, table=_MAIN_TABLE):
            subnet = f"{held.get('dst') or '0.0.0.0'}/{held['dst_len']}"
            present = subnet, held.get("prefsrc")
            if held["proto"] == ROUTE_PROTOCOL and present in missing:
                missing.remove(present)
            else:
                which = {"proto": held["proto"], "scope": held["scope"]}
                iproute.route("del", dst=subnet, oif=index, **which)
        _add_routes(iproute, index, missing)


def _add_routes(iproute: Any, index: int, wanted: Iterable[tuple[str, str]]) -> None:
    """Add routes to subnets, each with its source; continue after one that is refused."""
    common = {"oif": index, "proto": ROUTE_PROTOCOL, "scope": _SCOPE_LINK}
    refused: NetlinkError | None = None
    for subnet, source in sorted(wanted):
        try:
            iproute.route("add", dst=subnet, prefsrc=source, **common)
        except NetlinkError as exc:
            refused = exc
    if refused is not None:
        raise refused


def routes() -> list[tuple[IPv4Network, str]]:
    """Return the IPv4 routes: subnets, each with the name of a link."""
    with netlink.host_errors("cannot read the routes"), _iproute() as iproute:
        links = {link["index"]: str(link.get("ifname")) for link in iproute.get_links()}
        return [
            (IPv4Network((route.get("dst") or "0.0.0.0", route["dst_len"])), links[index])
            for route in iproute.get_routes(family=socket.AF_INET, table=_MAIN_TABLE)
            for index in _route_links(route)
            if index in links
        ]


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
    with netlink.host_errors(f"link with address {address}"), _iproute() as iproute:
        for held in iproute.get_addr():
            if held.get("address") == str(address):
                (link,) = iproute.link("get", index=held["index"])
                return str(link.get("ifname"))
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
    return frozenset(found - {""})


def has_family(name: str) -> bool:
    """Tell whether the kernel has a generic netlink family."""
    with netlink.host_errors("cannot ask the kernel"), GenericNetlinkSocket() as generic:
        try:
            generic.bind(name, None)
        except NetlinkError:
            return False
        return True


def _iproute() -> Any:
    # Within `netlink.host_errors`: without a free file descriptor this is an OSError.
    return IPRoute(groups=0)
