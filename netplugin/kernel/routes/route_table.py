"""The agent's own routing table: the routes to pods, and the addresses that never take one.

In come routes by the agent's links, and addresses of the underlay; out go two rules for each
family (ADR 33), routes and exceptions. As `netplugin.kernel.links.host_links`, each function works
in the network namespace of the calling thread and blocks; `netplugin.kernel.netns` calls it in a
thread.
"""

# The host's own routing is looked up first, except its default routes: rule MAIN_FIRST passes over
# what is no longer than /0. An administrator may have some prefixes looked up here before (rules
# FIRST). Then comes this table, then whatever else the host has, the default route among it. An
# exception is a route of type `throw`: the look-up ends in this table as if it were empty. It has
# the longest prefix there is and the lowest metric, so that no route of this table can take its
# address, whichever routes there are.

import errno
import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

from pyroute2 import IPRoute

from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netlink.requests import Address, Network, RoutingRule

ROUTE_PROTOCOL: Final = 201
"""The protocol number that marks routes of this agent; no other program is known to use it."""
TABLE: Final = 20201
"""Beyond the numbers that others give to tables, which are mostly below 256."""
FIRST: Final = 32_699
MAIN_FIRST: Final = 32_700
OWN_TABLE: Final = 32_701
"""The preferences of the rules: after those that others add, which have lower ones, and before the
kernel's rule of the table `main`, 32766. So no packet that is not for a pod is routed otherwise."""

_MAIN_TABLE: Final = 254
_ROUTE_METRIC: Final = 256
_THROW_METRIC: Final = 1
"""In IPv6 0 stands for 1024."""
_THROW: Final = 9
_SUPPRESSES_NOTHING: Final = 2**32 - 1
_RULES: Final = (RoutingRule(MAIN_FIRST, _MAIN_TABLE, suppress=0), RoutingRule(OWN_TABLE, TABLE))
_SETTINGS6: Final = Path("/proc/sys/net/ipv6/conf")
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_NO_FAMILY: Final = frozenset({errno.EAFNOSUPPORT, errno.EOPNOTSUPP})
"""What a kernel without IPv6 answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoute:
    """A route of the host by one of the agent's links, with its preferred source address.

    Without a source the kernel chooses. With `via` the packets go to that neighbour's MAC address
    (`ensure_neighbours`), else each address of the subnet is resolved.
    """

    subnet: Network
    source: Address | None
    via: Address | None = None
    metric: int = _ROUTE_METRIC
    """Of two routes to one subnet the one with the lower metric is taken."""


def ensure_rules(first: Iterable[Network]) -> None:
    """Add the rules that are missing; remove others that are the agent's.

    Destinations in `first` are looked up in the agent's table before that of the host. A kernel
    without IPv6 has those of IPv4.
    """
    wanted = [*_RULES, *(RoutingRule(FIRST, TABLE, to=one) for one in first)]
    with netlink.host_errors("rules of routing"), _iproute() as iproute:
        for family in _FAMILIES:
            here = [one for one in wanted if one.to is None or _family(one.to) == family]
            held = [one for one in _own_rules(iproute, family) if one not in here]
            missing = _NO_FAMILY if family == socket.AF_INET6 else frozenset[int]()
            for error in netlink.send(*(netlink.rule(family, one, ROUTE_PROTOCOL) for one in here)):
                _raise(error, unless={errno.EEXIST, *missing})
            _delete_rules(family, held)


def picture() -> list[str]:
    """Return the agent's rules, and how many routes its table has, a line of text for each."""
    with netlink.host_errors("cannot read rules and routes"), _iproute() as iproute:
        found = []
        for family in _FAMILIES:
            version = 4 if family == socket.AF_INET else 6
            for one in _own_rules(iproute, family):
                to = "" if one.to is None else f" to {one.to}"
                found.append(f"rule {one.preference} of IPv{version}:{to} lookup {one.table}")
            if routes := list(_own_routes(iproute, family)):
                found.append(f"{len(routes)} routes of IPv{version} in table {TABLE}")
        return found


def withdraw() -> None:
    """Remove the rules, and all routes of the table; what is missing is a success."""
    with netlink.host_errors("rules of routing"), _iproute() as iproute:
        for family in _FAMILIES:
            _delete_rules(family, _own_rules(iproute, family))
            _delete(list(_own_routes(iproute, family)))


def adopt() -> int:
    """Move the routes of an earlier release from the table `main` to the agent's.

    Return how many there were.
    """
    with netlink.host_errors("routes of an earlier release"), _iproute() as iproute:
        moved = 0
        for family in _FAMILIES:
            found = [
                one
                for one in iproute.get_routes(family=family, table=_MAIN_TABLE)
                if one["proto"] == ROUTE_PROTOCOL and one.get("oif")
            ]
            # One that is there already, or leads to a link that is down, is set by its loop.
            netlink.send(*(_copied(one) for one in found))
            _delete(found)
            moved += len(found)
        return moved


def ensure_exceptions(addresses: Collection[Address], *, only: bool) -> None:
    """Add the exceptions that are missing; with `only` remove all others."""
    with netlink.host_errors("exceptions from routing"), _iproute() as iproute:
        held = {
            ip_address(one.get("dst"))
            for family in _FAMILIES
            for one in _own_routes(iproute, family)
            if one["type"] == _THROW and one["dst_len"] == _length(family)
        }
        change_exceptions(held - set(addresses) if only else (), set(addresses) - held)


def change_exceptions(gone: Iterable[Address], new: Iterable[Address]) -> None:
    """Add exceptions, and remove others; those that are there, or missing, are a success."""
    with netlink.host_errors("exceptions from routing"):
        for error in netlink.send(*(_exception(one, netlink.thrown) for one in new)):
            _raise(error, unless=_NO_FAMILY | {errno.EEXIST})
        for error in netlink.send(*(_exception(one, netlink.not_thrown) for one in gone)):
            _raise(error, unless=_NO_FAMILY | {errno.ESRCH})


def ensure_routes(name: str, routes: Collection[HostRoute]) -> None:
    """Set the routes by a link in the agent's table; remove all others by it there.

    In the table `main` those of IPv4 are removed too, and the agent's own of IPv6: the kernel, and
    releases before the table, put them there. Where the link has no IPv6 there are none of that.
    """
    with netlink.host_errors(f"routes of link {name}"), _iproute() as iproute:
        index = netlink.required_index(name)
        missing = {_present(route): route for route in _possible(name, routes)}
        in_main: list[Any] = []
        for family in _FAMILIES:
            for held in iproute.get_routes(family=family, oif=index):
                table = held.get("table")
                if table == TABLE and missing.pop(_held(held), None) is None:
                    _delete([held])
                # the kernel itself has IPv6 routes by every link, to link-local addresses
                elif table == _MAIN_TABLE and (
                    held["proto"] == ROUTE_PROTOCOL or family == socket.AF_INET
                ):
                    in_main.append(held)
        netlink.change(*_additions(index, (missing[key] for key in sorted(missing))))
        _delete(in_main)


def change_routes(name: str, gone: Iterable[HostRoute], new: Iterable[HostRoute]) -> None:
    """Remove routes by a link that `ensure_routes` set, and add others.

    A missing one is a success. Where the link has no IPv6 there are no routes of that.
    """
    with netlink.host_errors(f"routes of link {name}"):
        index = netlink.required_index(name)
        removals = (_change(index, one, netlink.unrouted) for one in _possible(name, gone))
        netlink.change(*removals, unless=errno.ESRCH)
        netlink.change(*_additions(index, _possible(name, new)))


def has_ipv6_on(name: str) -> bool:
    """Return whether the kernel has IPv6, and the administrator leaves it to a link."""
    switch = _SETTINGS6 / name / "disable_ipv6"
    return switch.exists() and switch.read_text(encoding="ascii").strip() == "0"


def _own_rules(iproute: Any, family: int) -> list[RoutingRule]:
    """Return the rules that bear the agent's mark."""
    found = []
    for held in iproute.get_rules(family=family):
        if held.get_attr("FRA_PROTOCOL") == ROUTE_PROTOCOL:
            to, suppress = held.get_attr("FRA_DST"), held.get_attr("FRA_SUPPRESS_PREFIXLEN")
            found.append(
                RoutingRule(
                    preference=int(held.get_attr("FRA_PRIORITY") or 0),
                    table=int(held.get_attr("FRA_TABLE") or 0),
                    to=ip_network((to, held["dst_len"])) if to else None,
                    suppress=None if suppress == _SUPPRESSES_NOTHING else suppress,
                )
            )
    return found


def _delete_rules(family: int, rules: Iterable[RoutingRule]) -> None:
    for error in netlink.send(*(netlink.no_rule(family, one, ROUTE_PROTOCOL) for one in rules)):
        _raise(error, unless=_NO_FAMILY | {errno.ENOENT, errno.ESRCH})


def _own_routes(iproute: Any, family: int) -> Iterator[Any]:
    yield from iproute.get_routes(family=family, table=TABLE)


def _exception(address: Address, request: Callable[..., bytes]) -> bytes:
    metric = _THROW_METRIC
    return request(ip_network(address), table=TABLE, metric=metric, protocol=ROUTE_PROTOCOL)


def _length(family: int) -> int:
    return 32 if family == socket.AF_INET else 128


def _family(of: Network) -> int:
    return socket.AF_INET if of.version == 4 else socket.AF_INET6


def _present(route: HostRoute) -> tuple[str, str, str, int]:
    """Return what the kernel shows of a route: subnet, source, next hop, metric."""
    return str(route.subnet), str(route.source or ""), str(route.via or ""), route.metric


def _held(route: Any) -> tuple[str, str, str, int]:
    metric = int(route.get("priority") or 0)
    return _subnet(route), route.get("prefsrc") or "", route.get("gateway") or "", metric


def _subnet(route: Any) -> str:
    anywhere = "0.0.0.0" if route["family"] == socket.AF_INET else "::"
    return f"{route.get('dst') or anywhere}/{route['dst_len']}"


def _possible(name: str, routes: Iterable[HostRoute]) -> list[HostRoute]:
    """Return the routes that a link can have, which may have no IPv6."""
    six = has_ipv6_on(name)
    return [one for one in routes if six or one.subnet.version == 4]


def _additions(index: int, routes: Iterable[HostRoute]) -> list[bytes]:
    """Return the requests that add routes by a link. One that is refused ends no other."""
    return [_change(index, one, netlink.routed, source=one.source) for one in routes]


def _change(
    index: int, route: HostRoute, request: Callable[..., bytes], **more: Address | None
) -> bytes:
    return request(
        index,
        route.subnet,
        via=route.via,
        metric=route.metric,
        protocol=ROUTE_PROTOCOL,
        table=TABLE,
        **more,
    )


def _copied(route: Any) -> bytes:
    """Return the request that adds a route of `main` to the agent's table."""
    source, via = route.get("prefsrc"), route.get("gateway")
    wanted = HostRoute(
        subnet=ip_network(_subnet(route)),
        source=ip_address(source) if source else None,
        via=ip_address(via) if via else None,
        metric=int(route.get("priority") or 0) or _ROUTE_METRIC,
    )
    return _change(route.get("oif"), wanted, netlink.routed, source=wanted.source)


def _delete(routes: Iterable[Any]) -> None:
    """Delete routes as they were read; one that is gone meanwhile is a success."""
    requests = [netlink.unrouted_as_read(one) for one in routes]
    netlink.change(*requests, unless=errno.ESRCH)


def _raise(error: int, *, unless: Collection[int]) -> None:
    if error and error not in unless:
        raise OSError(error, os.strerror(error))


def _iproute() -> Any:
    # Within `host_errors`: without a free file descriptor this is an OSError.
    return IPRoute(groups=0)
