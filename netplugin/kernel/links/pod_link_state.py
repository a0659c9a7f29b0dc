"""Reads what links of pods have: state, addresses, routes, queue. `pod_links` sets them.

As there, functions work in the network namespace of the link and block while the kernel works.
"""

import errno
import socket
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from netplugin.kernel.links import namespaces
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netlink.requests import Address, Interface, TokenBucket

_IFF_UP: Final = 0x01
_UNICAST: Final = 1
"""RTN_UNICAST: not the kernel's own entries for local and broadcast addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLink:
    """A link of a pod as the kernel has it; `gateways` are those of its default routes."""

    up: bool
    mac: str
    addresses: frozenset[Interface] = frozenset()
    gateways: frozenset[Address] = frozenset()
    routes: frozenset[IPv4Network | IPv6Network] = frozenset()
    """Where the other routes by the link go to. Routes of all tables count."""


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """The indexes of both ends of a veth pair, each in its own namespace."""

    index: int
    peer: int


def ends(name: str) -> LinkEnds | None:
    """Return the ends of a veth pair by the name of the one in this namespace, None for none."""
    index = netlink.index_of(name)
    return None if index is None else _ends(index)


def is_peer(of: LinkEnds) -> bool:
    """Return whether this namespace has the other end of a pair."""
    found = _ends(of.peer)
    return found is not None and found.peer == of.index


def _ends(index: int) -> LinkEnds | None:
    with IPRoute(groups=0) as iproute:
        link = link_at(iproute, index)
    peer = None if link is None else link.get_attr("IFLA_LINK")
    return None if peer is None else LinkEnds(index, int(peer))


def link_at(iproute: IPRoute, index: int) -> Any | None:
    """Return what the kernel says of a link, None if there is no such link."""
    try:
        (link,) = iproute.get_links(index)
    except NetlinkError as exc:
        if exc.code == errno.ENODEV:
            return None
        raise
    return link


def bucket_of(index: int) -> TokenBucket | None:
    """Return the token bucket by which a link sends, None if it has another queue or none."""
    with IPRoute(groups=0) as iproute:
        for queue in iproute.get_qdiscs(index):
            if queue.get_attr("TCA_KIND") == "tbf":
                made = queue.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")
                return TokenBucket(made["rate"], made["limit"], made["buffer"])
    return None


def read(netns_path: str, ifname: str) -> FoundLink | None:
    """Return a pod's link as it is, None if there is none of the name."""
    with (
        namespaces.opened(netns_path) as namespace,
        netlink.host_errors(f"link {ifname} in {netns_path}"),
        namespaces.inside(namespace),
    ):
        index = netlink.index_of(ifname)
        return None if index is None else _found(index)


def _found(index: int) -> FoundLink:
    with IPRoute(groups=0) as iproute:
        (link,) = iproute.get_links(index)
        # Of all tables: plugins such as sbr and vrf move a link's routes to one of their own.
        routes = [
            route
            for family in (socket.AF_INET, socket.AF_INET6)
            for route in iproute.get_routes(family=family, oif=index)
            if route["type"] == _UNICAST
        ]
        return FoundLink(
            up=bool(link["flags"] & _IFF_UP),
            mac=str(link.get_attr("IFLA_ADDRESS")),
            addresses=frozenset(
                ip_interface((held.get("local") or held.get("address"), held["prefixlen"]))
                for held in iproute.get_addr(index=index)
            ),
            gateways=frozenset(
                ip_address(str(route.get("gateway")))
                for route in routes
                if not route["dst_len"] and route.get("gateway")
            ),
            routes=frozenset(
                ip_network((str(route.get("dst")), route["dst_len"]))
                for route in routes
                if route["dst_len"]
            ),
        )
