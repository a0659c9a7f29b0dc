"""Fragments: all of an IP packet goes where its first fragment may go, and none without that.

The first fragment alone has the ports that rules are about. So rules apply to it alone: later ones
pass table 5. Table 6 then sends all of them through connection tracking, which holds them until
their packet is complete: what rules dropped the first fragment of never is. All four pipelines have
these flows. The original has none: to it every fragment has ports 0.
"""

# Why this needs no state of ours. Connection tracking is used for what it does before it looks at
# connections: it puts the fragments of a packet together, by addresses, protocol and identification
# (`ct` of ovs-actions(7)). Nothing is committed and `ct_state` is not looked at. The userspace
# datapath lets the fragments go on one by one once it has all of them; the kernel's goes on with
# the whole packet, and cuts it up again where it leaves.
#
# The ports of the original tuple (`ct_tp_dst`) would not do: Open vSwitch fills them in for later
# fragments in the kernel datapath alone.
#
# What a sender can do with it. Fragments that overlap, or never become complete, end here. A first
# fragment too short for its ports would be judged as one with ports 0, so it is dropped (RFC 1858).
# The userspace datapath keeps 1000 fragments at most, for 15 s; beyond, they pass as if complete.
# It also does not wait for fragments shorter than 1200 bytes (IPv6: 1280), except the last, which
# is lost then. Neither opens a way: a receiver needs the first fragment.
#
# The mark (REASSEMBLED) ends the loop: after tracking, a packet enters table 6 again.

from collections.abc import Iterator
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Conntrack, Instructions, Load, goto
from ofnet.openflow.fields import (
    FRAGMENT_ANY,
    FRAGMENT_FIRST,
    FRAGMENT_LATER,
    REASSEMBLED,
    TO_HOST,
)
from ofnet.openflow.match import Match, MatchFields
from ofnet.tables import Priority, TableId

ZONE: Final = 0xFFF0
"""The zone of connection tracking in which fragments are put together, and nothing else."""

_COMPLETE: Final = Instructions(
    (Load(REASSEMBLED, 1), Conntrack(table=TableId.SRV_PROXY_SNAT, zone=ZONE))
)


def flows() -> Iterator[Flow]:
    """Yield the flows for fragments."""
    for eth_type in (oxm.ETH_IPV4, oxm.ETH_IPV6):
        ip: MatchFields = {"eth_type": eth_type}
        # what a pod sends to its host is not for table 6; its host needs the first one too
        later: MatchFields = {**ip, "ip_frag": FRAGMENT_LATER, "metadata": TO_HOST.put(0)}
        yield _flow(TableId.POLICY, later, goto(TableId.SRV_PROXY_SNAT))
        first: MatchFields = {**ip, "ip_frag": FRAGMENT_FIRST}
        tcp: MatchFields = {**first, "ip_proto": oxm.PROTO_TCP, "tcp_src": 0, "tcp_dst": 0}
        udp: MatchFields = {**first, "ip_proto": oxm.PROTO_UDP, "udp_src": 0, "udp_dst": 0}
        yield _flow(TableId.POLICY, tcp, DROP)
        yield _flow(TableId.POLICY, udp, DROP)
        every: MatchFields = {**ip, "ip_frag": FRAGMENT_ANY, "metadata": REASSEMBLED.put(0)}
        yield _flow(TableId.SRV_PROXY_SNAT, every, _COMPLETE)


def _flow(table: TableId, fields: MatchFields, instructions: Instructions) -> Flow:
    return Flow(ObjectKind.PIPELINE, table, Priority.FRAGMENT, Match(**fields), instructions)
