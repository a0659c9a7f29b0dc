"""Finds the other ends of links: where pods are that another agent has connected.

In come names of links of this host; out come the namespace of each one's peer, by a path that leads
there, and the peer's name. Works in the calling thread, and blocks while the kernel works.
"""

import re
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyroute2 import IPRoute

from core.errors import HostError
from netplugin.kernel.links import namespaces
from netplugin.kernel.links.pod_link_state import link_at
from netplugin.kernel.netlink import requests as netlink

NAMED: Final = (Path("/run/netns"), Path("/run/docker/netns"))
"""Where runtimes give namespaces names, which last as long as their pods."""
PROCESSES: Final = Path("/proc")
_NUMBER: Final = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Where a link's peer is.

    `netns_path` is "" for this host's own namespace, and where no path leads to it; `ifname` is ""
    then, and `inside` tells the two apart.
    """

    netns_path: str
    ifname: str
    inside: bool


def find(names: Collection[str]) -> dict[str, PodPlace]:
    """Return the places of the peers of links by the links' names; links without one are left out.

    Raises HostError.
    """
    with netlink.host_errors("links of pods"), IPRoute(groups=0) as iproute:
        ends = {name: found for name in names if (found := _peer(iproute, name)) is not None}
        wanted = {number for _, number in ends.values() if number is not None}
        paths = _paths(iproute, wanted) if wanted else {}
    return {name: _place(index, number, paths) for name, (index, number) in ends.items()}


def _peer(iproute: IPRoute, name: str) -> tuple[int, int | None] | None:
    """Return a peer's index and the number of its namespace, None for this one."""
    index = netlink.index_of(name)
    link = None if index is None else link_at(iproute, index)
    if link is None:
        return None
    peer = link.get_attr("IFLA_LINK")
    return None if peer is None else (int(peer), link.get_attr("IFLA_LINK_NETNSID"))


def _paths(iproute: IPRoute, wanted: set[int]) -> dict[int, str]:
    """Return paths of namespaces by the numbers that they have for this one."""
    found: dict[int, str] = {}
    seen: set[int] = set()
    for path in _candidates():
        with suppress(OSError, HostError):  # it ended meanwhile, or is none
            inode = path.stat().st_ino
            if inode in seen:
                continue
            seen.add(inode)
            with namespaces.opened(str(path)) as descriptor:
                number = iproute.get_netnsid(fd=descriptor)["nsid"]
            if number in wanted:
                found.setdefault(number, str(path))
        if len(found) == len(wanted):
            break
    return found


def _candidates() -> Iterator[Path]:
    for directory in NAMED:
        with suppress(FileNotFoundError):
            yield from sorted(directory.iterdir())
    names = (one.name for one in PROCESSES.iterdir())
    # The lowest first: a pod's first process lives as long as the pod.
    for number in sorted(int(name) for name in names if _NUMBER.fullmatch(name)):
        yield PROCESSES / str(number) / "ns" / "net"


def _place(index: int, number: int | None, paths: dict[int, str]) -> PodPlace:
    if number is None:
        return PodPlace("", "", inside=False)
    path = paths.get(number, "")
    if not path:
        return PodPlace("", "", inside=True)
    try:
        with namespaces.opened(path) as descriptor, namespaces.inside(descriptor):
            return PodPlace(path, socket.if_indextoname(index), inside=True)
    except (OSError, HostError):
        return PodPlace("", "", inside=True)
