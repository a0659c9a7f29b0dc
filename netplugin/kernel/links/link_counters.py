"""What has passed the host's ends of pods' links, from the kernel's own table of links.

In comes the text of /proc/net/dev; out go counters by the names of links. Open vSwitch has the
statistics of such a port from there too, in either datapath. To read the table asks nobody: not
ovs-vswitchd, whose one thread ADDs wait for, nor the kernel's lock of links.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from netplugin.kernel.netlink import requests as netlink

TABLE: Final = Path("/proc/net/dev")


class LinkCount(NamedTuple):
    """What a link has received and sent since it is there, as its own host sees it."""

    received_bytes: int = 0
    received_packets: int = 0
    sent_bytes: int = 0
    sent_packets: int = 0


def read(beginnings: tuple[str, ...], table: Path = TABLE) -> Mapping[str, LinkCount]:
    """Return the counters of the links whose names begin so. Raises HostError."""
    with netlink.host_errors("counters of links"):
        return dict(counters(table.read_text(), beginnings))


def counters(text: str, beginnings: tuple[str, ...]) -> Iterator[tuple[str, LinkCount]]:
    """Yield the links of a table whose names begin so, with their counters (proc_net_dev(5))."""
    for line in text.splitlines():
        name, _, counted = line.lstrip().partition(":")
        if name.startswith(beginnings):
            received, packets, *_, sent, sent_packets = counted.split()[:_SENT_PACKETS]
            yield name, LinkCount(int(received), int(packets), int(sent), int(sent_packets))


_SENT_PACKETS: Final = 10
"""Eight columns are of what came, then those of what went: bytes and packets first of both."""
