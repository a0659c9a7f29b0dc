"""Netlink requests that change links, addresses and routes, sent in batches.

In come indexes, names and addresses; `send` returns the result of each request, `change` raises the
first error. The codec is pyroute2's, the socket a plain one: pyroute2's own sockets run an event
loop for each request, which took three quarters of the time that an ADD spends on netlink. Requests
apply to the network namespace of the calling thread. They block, so the event loop must not call
them (`netplugin.kernel.netns`).
"""

import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
)
from typing import Any, Final, NamedTuple

from pyroute2.netlink import (
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
)
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import (
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_DELROUTE,
    RTM_DELRULE,
    RTM_GETADDR,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWRULE,
    TC_H_ROOT,
    rt_proto,
    rt_scope,
    rt_type,
)
from pyroute2.netlink.rtnl.fibmsg import FR_ACT_TO_TBL, fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD, ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import IFF_NOARP, IFF_PROMISC, IFF_UP, ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import sched_tbf, tcmsg

from core.errors import HostError
from netplugin.kernel.netlink.acyclic_messages import free_messages_at_once

# all modules that send or read messages import this one
free_messages_at_once()

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface

Network = IPv4Network | IPv6Network

_MAIN_TABLE: Final = 254
_NUMBER_IN_ATTRIBUTE: Final = 252
"""In the field of a table, which has one byte (RT_TABLE_COMPAT)."""
_ANY_SCOPE: Final = 255
"""RT_SCOPE_NOWHERE: a deletion matches routes of every scope."""
_IFA_F_NOPREFIXROUTE: Final = 0x200
WITHOUT_ROUTE6: Final = IFA_F_NODAD | _IFA_F_NOPREFIXROUTE
"""The flags of an IPv6 address that `address` sets without a route to its subnet."""
_DEPRECATED: Final = {"ifa_preferred": 0, "ifa_valid": 2**32 - 1, "cstamp": 0, "tstamp": 0}
"""An address that is valid for ever, and preferred for no time (RFC 4862 §5.5.4)."""
_ON_LINK: Final = 4
_PERMANENT: Final = 0x80
"""A neighbour that the kernel never resolves anew (NUD_PERMANENT)."""
_MOST: Final = 2**32 - 1
"""The largest rate of a token bucket, in bytes per second: 34 Gbit/s."""
_LARGEST_BURST: Final = 2**28
_QUEUED: Final = 25_000
"""Microseconds that a frame may wait for its turn; what would wait longer is dropped."""
_ONLY_HANDLE: Final = 1 << 16


class TokenBucket(NamedTuple):
    """A token bucket in the kernel's units: bytes per second, bytes that wait, ticks of a burst."""

    rate: int
    limit: int
    buffer: int
    mtu: int = 0


class RouteWay(NamedTuple):
    """How the host sends to an address: the number of the link, and the next hop, if any."""

    link: int
    via: Address | None


_HEADER: Final = struct.Struct("=IHHII")
_SEQUENCE_AT: Final = 8
_REPLIES: Final = 1 << 16
_ADDRESS: Final = struct.Struct("=BBBBI")
"""Family, prefix length, flags, scope and link of an address (rtnetlink(7))."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_IFA_ADDRESS: Final = 1
_ROUTE: Final = struct.Struct("=BBBBBBBBI")
"""Family, prefix lengths, and more of a route (rtnetlink(7))."""
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_VIA = 1, 4, 5, 18
_FAMILY_AT: Final = 2
_ASKED_AT_ONCE: Final = 32
"""The answers to so many questions fit into the buffer of a socket."""


_own: deque[int] = deque(maxlen=256)


def own_ports() -> frozenset[int]:
    """Return the ports that the latest requests came from: events name who asked for a change."""
    return frozenset(_own)


def send(*requests: bytes) -> list[int]:
    """Send requests, which the kernel carries out in order; return 0 or an errno for each.

    A failed request does not stop the following ones.
    """
    if not requests:
        return []  # an empty message would get no reply
    results = dict.fromkeys(range(len(requests)), 0)
    numbered = (_numbered(request, number) for number, request in enumerate(requests))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.send(b"".join(numbered))
        _own.append(sock.getsockname()[0])
        left = set(results)
        while left:
            for number, error in _replies(sock.recv(_REPLIES)):
                results[number] = error
                left.discard(number)
    return list(results.values())


def change(*requests: bytes, unless: int = 0) -> None:
    """Send requests, which the kernel carries out in order.

    Raises OSError for the first that fails with any error but `unless`.
    """
    for error in send(*requests):
        if error not in {0, unless}:
            raise OSError(error, os.strerror(error))


def held_addresses() -> Iterator[tuple[int, Address]]:
    """Yield the addresses of all links, each with the link's index."""
    request = _HEADER.pack(
        _HEADER.size + _ADDRESS.size, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 0, 0
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.send(request + bytes(_ADDRESS.size))
        while True:
            data = sock.recv(_REPLIES)
            at = 0
            while at < len(data):
                length, kind, _, _, _ = _HEADER.unpack_from(data, at)
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    (error,) = struct.unpack_from("=i", data, at + _HEADER.size)
                    raise OSError(-error, os.strerror(-error))
                yield from _held_address(data[at + _HEADER.size : at + length])
                at += (length + 3) & ~3


def _held_address(message: bytes) -> Iterator[tuple[int, Address]]:
    *_, index = _ADDRESS.unpack_from(message)
    for kind, packed in attributes(message, _ADDRESS.size):
        if kind == _IFA_ADDRESS:
            yield index, IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)


def ways(addresses: Sequence[Address]) -> dict[Address, RouteWay]:
    """Return how the host sends to addresses, by its rules and tables; without those it cannot."""
    found: dict[Address, RouteWay] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        for start in range(0, len(addresses), _ASKED_AT_ONCE):
            asked = addresses[start : start + _ASKED_AT_ONCE]
            sock.send(b"".join(_question(one, number) for number, one in enumerate(asked)))
            answered = 0
            while answered < len(asked):
                data = sock.recv(_REPLIES)
                for kind, number, message in _messages(data):
                    answered += 1
                    if kind == RTM_NEWROUTE:
                        found[asked[number]] = _way(message)
    return found


def _question(address: Address, number: int) -> bytes:
    held = address.packed
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(held), _RTA_DST) + held
    route = _ROUTE.pack(_family(address), len(held) * 8, 0, 0, 0, 0, 0, 0, 0)
    length = _HEADER.size + len(route) + len(attribute)
    return _HEADER.pack(length, RTM_GETROUTE, NLM_F_REQUEST, number, 0) + route + attribute


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(data):
        length, kind, _, number, _ = _HEADER.unpack_from(data, at)
        yield kind, number, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def _way(message: bytes) -> RouteWay:
    index, via = 0, None
    for kind, value in attributes(message, _ROUTE.size):
        if kind == _RTA_OIF:
            (index,) = struct.unpack("=I", value)
        elif kind in {_RTA_GATEWAY, _RTA_VIA}:  # the next hop of IPv4 may be one of IPv6
            via = ip_address(value[_FAMILY_AT:] if kind == _RTA_VIA else value)
    return RouteWay(index, via)


def attributes(message: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes of a message, which begin at an offset: number and content."""
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        yield kind, message[at + _ATTRIBUTE.size : at + length]
        at += max(length + 3 & ~3, _ATTRIBUTE.size)


@contextmanager
def host_errors(what: str) -> Iterator[None]:
    """Convert netlink and OS errors of the body to a HostError that begins with `what`."""
    try:
        yield
    except NetlinkError as exc:
        raise HostError(f"{what}: {os.strerror(exc.code)}") from exc
    except OSError as exc:
        raise HostError(f"{what}: {exc.strerror or exc}") from exc


def index_of(name: str) -> int | None:
    """Return the index of a link, None if there is no such link."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def required_index(name: str) -> int:
    """Return the index of a link. Raises OSError if there is no such link."""
    index = index_of(name)
    if index is None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    return index


def veth(name: str, peer: str, namespace: int, mtu: int) -> bytes:
    """Create a veth, up and promiscuous, with its peer in a namespace (a file descriptor)."""
    # From the start, as ovs-vswitchd would set it: each change of a link makes it go through all
    # of its ports. It writes back all flags that it has read: a link set up in between would be set
    # down again.
    far = {"attrs": _attributes(IFLA_IFNAME=peer, IFLA_NET_NS_FD=namespace, IFLA_MTU=mtu)}
    data = {"attrs": _attributes(VETH_INFO_PEER=far)}
    info = {"attrs": _attributes(IFLA_INFO_KIND="veth", IFLA_INFO_DATA=data)}
    attributes = _attributes(IFLA_IFNAME=name, IFLA_MTU=mtu, IFLA_LINKINFO=info)
    flags = IFF_UP | IFF_PROMISC
    message = _message(ifinfmsg, attributes, flags=flags, change=flags)
    return _request(message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL)


def link_up(index: int, mac: str | None = None) -> bytes:
    """Set a link up, and its MAC address."""
    attributes = [] if mac is None else _attributes(IFLA_ADDRESS=mac)
    message = _message(ifinfmsg, attributes, index=index, flags=IFF_UP, change=IFF_UP)
    return _request(message, RTM_NEWLINK)


def without_neighbours(index: int, mac: str) -> bytes:
    """Set a link up that resolves no addresses: each of its frames is for its own MAC address."""
    flags = IFF_UP | IFF_NOARP
    message = _message(
        ifinfmsg, _attributes(IFLA_ADDRESS=mac), index=index, flags=flags, change=flags
    )
    return _request(message, RTM_NEWLINK)


def with_mtu(index: int, mtu: int) -> bytes:
    """Set the MTU of a link."""
    return _request(_message(ifinfmsg, _attributes(IFLA_MTU=mtu), index=index), RTM_NEWLINK)


def in_group(index: int, group: int) -> bytes:
    """Set the group of a link."""
    return _request(_message(ifinfmsg, _attributes(IFLA_GROUP=group), index=index), RTM_NEWLINK)


def no_link(index: int) -> bytes:
    """Delete a link."""
    return _request(_message(ifinfmsg, [], index=index), RTM_DELLINK)


def no_group(group: int) -> bytes:
    """Delete all links of a group."""
    return _request(_message(ifinfmsg, _attributes(IFLA_GROUP=group)), RTM_DELLINK)


def address(index: int, held: Interface, *, routed: bool = True, deprecated: bool = False) -> bytes:
    """Add an address to a link, or replace it.

    The kernel adds the route to its subnet, unless `routed` is False. It chooses one of IPv6 that
    is `deprecated` for no connection, unless there is no other, or a route names it.
    """
    text = str(held.ip)
    # No duplicate address detection: an IPv6 address could not be used for 1.4 s.
    flags = (IFA_F_NODAD if held.version == 6 else 0) | (0 if routed else _IFA_F_NOPREFIXROUTE)
    lifetime = {"IFA_CACHEINFO": _DEPRECATED} if deprecated else {}
    message = _message(
        ifaddrmsg,
        _attributes(IFA_LOCAL=text, IFA_ADDRESS=text, IFA_FLAGS=flags, **lifetime),
        family=_family(held),
        prefixlen=held.network.prefixlen,
        index=index,
    )
    return _request(message, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE)


def no_address(index: int, held: Interface) -> bytes:
    """Remove an address from a link."""
    text = str(held.ip)
    message = _message(
        ifaddrmsg,
        _attributes(IFA_LOCAL=text, IFA_ADDRESS=text),
        family=_family(held),
        prefixlen=held.network.prefixlen,
        index=index,
    )
    return _request(message, RTM_DELADDR)


def default_route(index: int, gateway: Address, *, on_link: bool) -> bytes:
    """Set the default route by a link; `on_link`: the gateway is in no subnet of it."""
    message = _message(
        rtmsg,
        _attributes(RTA_GATEWAY=str(gateway), RTA_OIF=index),
        family=_family(gateway),
        table=_MAIN_TABLE,
        proto=rt_proto["static"],
        type=rt_type["unicast"],
        flags=_ON_LINK if on_link else 0,
    )
    return _request(message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE)


def route(index: int, subnet: Network) -> bytes:
    """Add or replace a route to a directly connected subnet."""
    return _subnet_route(index, subnet, kind="unicast", scope="link")


def local_route(index: int, subnet: Network) -> bytes:
    """Have the host accept packets to all addresses of a subnet as its own, by its loopback."""
    return _subnet_route(index, subnet, kind="local", scope="host")


def _subnet_route(index: int, subnet: Network, *, kind: str, scope: str) -> bytes:
    message = _message(
        rtmsg,
        _attributes(RTA_DST=str(subnet.network_address), RTA_OIF=index),
        family=socket.AF_INET if subnet.version == 4 else socket.AF_INET6,
        dst_len=subnet.prefixlen,
        table=_MAIN_TABLE,
        proto=rt_proto["static"],
        type=rt_type[kind],
        scope=rt_scope[scope],
    )
    return _request(message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE)


def routed(
    index: int,
    subnet: Network,
    *,
    source: Address | None,
    via: Address | None,
    metric: int,
    protocol: int,
    table: int,
) -> bytes:
    """Add a route by a link, with the kernel's choices for what is None.

    EEXIST for one to the same subnet with the same metric. `via` is on the link.
    """
    near = via is None and subnet.version == 4
    message = _route(subnet, metric=metric, protocol=protocol, table=table)
    message["type"] = rt_type["unicast"]
    message["scope"] = rt_scope["link" if near else "universe"]
    message["attrs"] += _hop(index, via)
    message["flags"] = 0 if via is None else _ON_LINK
    if source is not None:
        message["attrs"] += _attributes(RTA_PREFSRC=str(source))
    return _request(message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL)


def unrouted(
    index: int, subnet: Network, *, via: Address | None, metric: int, protocol: int, table: int
) -> bytes:
    """Delete a route that `routed` added; ESRCH if there is none."""
    message = _route(subnet, metric=metric, protocol=protocol, table=table)
    message["scope"] = _ANY_SCOPE
    message["attrs"] += _hop(index, via)
    return _request(message, RTM_DELROUTE)


def unrouted_as_read(route: Any) -> bytes:
    """Delete a route that was read; ESRCH if it is gone."""
    kept = ("RTA_DST", "RTA_OIF", "RTA_PRIORITY", "RTA_TABLE")
    message = _message(
        rtmsg,
        [(name, value) for name, value in route["attrs"] if name in kept],
        **{name: route[name] for name in ("family", "dst_len", "table", "proto", "type", "scope")},
    )
    return _request(message, RTM_DELROUTE)


def thrown(subnet: Network, *, metric: int, protocol: int, table: int) -> bytes:
    """Except a subnet from a table, as if that had no route to it; EEXIST if it is."""
    message = _route(subnet, metric=metric, protocol=protocol, table=table)
    message["type"] = rt_type["throw"]
    return _request(message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL)


def not_thrown(subnet: Network, *, metric: int, protocol: int, table: int) -> bytes:
    """Undo `thrown`; ESRCH if it is undone."""
    message = _route(subnet, metric=metric, protocol=protocol, table=table)
    message["scope"] = _ANY_SCOPE
    message["type"] = rt_type["throw"]
    return _request(message, RTM_DELROUTE)


def _route(subnet: Network, *, metric: int, protocol: int, table: int) -> Any:
    return _message(
        rtmsg,
        _attributes(RTA_DST=str(subnet.network_address), RTA_TABLE=table, RTA_PRIORITY=metric),
        family=socket.AF_INET if subnet.version == 4 else socket.AF_INET6,
        dst_len=subnet.prefixlen,
        table=_NUMBER_IN_ATTRIBUTE,
        proto=protocol,
    )


def _hop(index: int, via: Address | None) -> list[tuple[str, Any]]:
    hop = _attributes(RTA_OIF=index)
    return hop if via is None else [*hop, *_attributes(RTA_GATEWAY=str(via))]


class RoutingRule(NamedTuple):
    """Which table is looked up, in the order of preferences, for which destinations.

    With `suppress` what has a prefix of no more than that length is passed over.
    """

    preference: int
    table: int
    to: Network | None = None
    suppress: int | None = None


def rule(family: int, wanted: RoutingRule, protocol: int) -> bytes:
    """Add a rule; EEXIST if there is one like it."""
    return _request(_rule(family, wanted, protocol), RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL)


def no_rule(family: int, wanted: RoutingRule, protocol: int) -> bytes:
    """Delete a rule; ENOENT if there is none."""
    return _request(_rule(family, wanted, protocol), RTM_DELRULE)


def _rule(family: int, wanted: RoutingRule, protocol: int) -> Any:
    attributes = _attributes(
        FRA_PRIORITY=wanted.preference, FRA_TABLE=wanted.table, FRA_PROTOCOL=protocol
    )
    if wanted.suppress is not None:
        attributes += _attributes(FRA_SUPPRESS_PREFIXLEN=wanted.suppress)
    if wanted.to is not None:
        attributes += _attributes(FRA_DST=str(wanted.to.network_address))
    length = 0 if wanted.to is None else wanted.to.prefixlen
    return _message(fibmsg, attributes, family=family, dst_len=length, action=FR_ACT_TO_TBL)


def neighbour(index: int, held: Address, mac: str) -> bytes:
    """Add a permanent neighbour behind a link, or replace it."""
    message = _message(
        ndmsg,
        _attributes(NDA_DST=str(held), NDA_LLADDR=mac),
        family=_family(held),
        ifindex=index,
        state=_PERMANENT,
    )
    return _request(message, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE)


def token_bucket(index: int, bucket: TokenBucket) -> bytes:
    """Have a link send no more than a token bucket lets pass (tc-tbf(8))."""
    options = {"attrs": [["TCA_TBF_PARMS", bucket._asdict()], ["TCA_TBF_RTAB", True]]}
    attributes = _attributes(TCA_KIND="tbf", TCA_OPTIONS=options)
    message = _message(tcmsg, attributes, index=index, handle=_ONLY_HANDLE, parent=TC_H_ROOT)
    return _request(message, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE)


def bucket(rate: int, burst: int) -> TokenBucket:
    """Return the token bucket of `rate` bytes a second beyond bursts of `burst` bytes."""
    asked = {"rate": min(rate, _MOST), "burst": min(burst, _LARGEST_BURST), "latency": _QUEUED}
    (_, made), *_ = sched_tbf.get_parameters(asked)["attrs"]
    # a burst is a time: at a low rate it ends at the most that the field takes, 274 s
    return TokenBucket(made["rate"], min(made["limit"], _MOST), min(made["buffer"], _MOST))


def _family(of: Address | Interface) -> int:
    return socket.AF_INET if of.version == 4 else socket.AF_INET6


def _attributes(**named: Any) -> list[tuple[str, Any]]:
    return list(named.items())


def _message(kind: Any, held: list[tuple[str, Any]], **values: int) -> Any:
    message = kind()
    for name, value in values.items():
        message[name] = value
    message["attrs"] = held
    return message


def _request(message: Any, kind: int, flags: int = 0) -> bytes:
    message["header"]["type"] = kind
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | flags
    message.encode()
    return bytes(message.data)


def _numbered(request: bytes, number: int) -> bytes:
    return request[:_SEQUENCE_AT] + struct.pack("=I", number) + request[_SEQUENCE_AT + 4 :]


def _replies(data: bytes) -> Iterator[tuple[int, int]]:
    """Parse acknowledgements: the number of a request and its errno or 0."""
    at = 0
    while at < len(data):
        length, kind, _, number, _ = _HEADER.unpack_from(data, at)
        if kind == NLMSG_ERROR:
            (error,) = struct.unpack_from("=i", data, at + _HEADER.size)
            yield number, -error
        at += (length + 3) & ~3
