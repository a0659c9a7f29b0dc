"""The kernel's table of links: whose counters are read, and which columns."""

from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.kernel.links.link_counters import LinkCount, counters, read

TABLE = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
colls carrier compressed
    lo: 8602160    2243    0    0    0     0          0         0  8602160    2243    0    0    0  \
   0       0          0
ovs-netdev:       0       0    0    0    0     0          0         0        0       0    0    0  \
  0     0       0          0
contivdns0:   45136     508    0    1    0     0          0         0    30349     341    0    0   \
 0     0       0          0
vvport6:     946      11    0    0    0     0          0         0      140       2    0    0    0 \
    0       0          0
vvport8:  648946   12011    0    2    0     0          0         3 18446744073709551615       5    \
0    4    0     0       0          0
hport8:       7       1    0    0    0     0          0         0        9       2    0    0    0  \
   0       0          0
"""
"""Of a host with two pods on Open vSwitch; the last numbers are made up."""


def test_the_links_of_pods_are_read_with_bytes_and_packets() -> None:
    assert dict(counters(TABLE, ("vvport", "hport"))) == {
        "vvport6": LinkCount(946, 11, 140, 2),
        "vvport8": LinkCount(648946, 12011, 2**64 - 1, 5),
        "hport8": LinkCount(7, 1, 9, 2),
    }
    assert dict(counters(TABLE, ())) == {}


def test_the_host_has_such_a_table(tmp_path: Path) -> None:
    loopback = read(("lo",))["lo"]
    assert loopback.received_packets == loopback.sent_packets
    with pytest.raises(HostError, match="counters of links: No such file"):
        read(("lo",), tmp_path / "dev")
