"""The limit on what a pod receives: a token bucket at the host's end of its link.

What the switch sends to a pod passes the queue of that end, in the kernel's datapath and in the
userspace one, which sends by packet sockets. In come rate and burst in kbit/s and kbit, a burst of
0 being the default; out goes the queue, or whether it is the one.
`netplugin.kernel.links.pod_links` sets it, CHECK (`netplugin.pods.check`) compares it. Both
functions block while the kernel works.
"""

from typing import Final

from netplugin.kernel.links import pod_link_state
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netlink.requests import TokenBucket

_BYTES: Final = 125
"""Bytes of a kbit."""
_BURST: Final = 8000
"""Kbit of a burst unless it is given: what Open vSwitch takes for the other direction."""
_LEAST: Final = 2 * 9234
"""Bytes of the smallest bucket: one that cannot hold a frame lets it never pass, and the link's MTU
may rise up to that of jumbo frames (9216 bytes, and Ethernet's header with a VLAN)."""


def put(name: str, rate: int, burst: int) -> None:
    """Limit what goes out by a link."""
    netlink.change(netlink.token_bucket(netlink.required_index(name), _bucket(rate, burst)))


def holds(name: str, rate: int, burst: int) -> bool:
    """Return whether a link has the queue that `put` makes."""
    with netlink.host_errors(f"queue of link {name}"):
        index = netlink.index_of(name)
        return index is not None and pod_link_state.bucket_of(index) == _bucket(rate, burst)


def _bucket(rate: int, burst: int) -> TokenBucket:
    return netlink.bucket(rate * _BYTES, max((burst or _BURST) * _BYTES, _LEAST))
