"""The tables of the pipelines: what each may match, do, write and go to. Pure.

Ids and priorities are the original's. The paths of packets through the tables:

* from a local endpoint: 0, 1, 3, 4, 5, 6, then 9 or 7 (and 8);
* from a tunnel or an uplink: 0, 1, 2, then 4 and 5 if a known endpoint sent it, 6, then 9 or 7;
* from the host's own port: 0, 2, 6, 7;
* from a pod's interface to its host: 0, 4, 5, 8;
* ARP and ND requests: 0, 10, 11.
"""

# `ofnet.flows.Flow` refuses a flow outside its table's declaration. The declarations are therefore
# the whole graph of the pipelines: no module can build a flow that goes to a table its stage does
# not lead to, or that overwrites metadata of another stage. `next` has higher numbers alone, as
# OpenFlow requires.

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from ofnet.openflow.actions import DROP, PORT_NORMAL, Instructions, Output, goto
from ofnet.openflow.fields import (
    DESTINATION_GROUP,
    FROM_HOST,
    MANAGEMENT,
    RX_VTEP,
    SOURCE_GROUP,
    TO_HOST,
    VRF,
)
from ofnet.world import Bridge, FwdMode


class Mode(StrEnum):
    """The four pipelines; the value is the original's name of the datapath (DpName)."""

    VLAN = "vlan"
    VXLAN = "vxlan"
    VLROUTER = "vlrouter"
    VROUTER = "vrouter"


def mode_of(bridge: Bridge, fwd_mode: FwdMode) -> Mode:
    """Return the pipeline a bridge runs in a forwarding mode."""
    match bridge, fwd_mode:
        case Bridge.VLAN, FwdMode.BRIDGE:
            return Mode.VLAN
        case Bridge.VLAN, _:
            return Mode.VLROUTER
        case _, FwdMode.BRIDGE:
            return Mode.VXLAN
        case _:
            return Mode.VROUTER


class TableId(IntEnum):
    """The tables by number."""

    INPUT = 0
    VLAN = 1
    INGRESS_GROUP = 2
    SRV_PROXY_DNAT = 3
    DST_GRP = 4
    POLICY = 5
    SRV_PROXY_SNAT = 6
    IP = 7
    HOST_SNAT = 8
    MAC_DEST = 9
    NEIGHBOURS = 10
    NEIGHBOUR_REPLY = 11


class Priority(IntEnum):
    """The priorities in use; a higher one wins."""

    MISS = 1
    GUARD = 5
    GUARD_PASS = 6
    GUARD_NEVER = 7
    GUARD_EXCEPT = 8
    UNLISTED = 9
    PORT = 10
    HAIRPIN_REPLY = 90
    SHORTEST_PREFIX = 20
    """Of a default route; each bit of a prefix adds one."""

    HOST_PORT = 99
    MATCH = 100
    ABOVE_MATCH = 101
    EXEMPT = 102
    UNTAGGED = 102
    TAGGED = 103
    REQUEST = 110
    ANNOUNCEMENT = 111
    TO_HOST = 150
    NEIGHBOURS = 200
    MANAGEMENT = 201
    OWN_ARP = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The declaration of one table.

    `writes` has the metadata bits its flows may set; `misses` has the instructions for packets that
    match no flow, for each mode that has the table.
    """

    id: TableId
    matches: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    writes: int = 0
    next: frozenset[TableId] = frozenset()
    misses: Mapping[Mode, Instructions] = field(default_factory=dict)


def _everywhere(miss: Instructions) -> dict[Mode, Instructions]:
    return dict.fromkeys(Mode, miss)


_ROUTED: Final = goto(TableId.IP)
_BRIDGED: Final = goto(TableId.MAC_DEST)
_CONNECTION: Final = frozenset(
    {"eth_type", "metadata", "ip_proto", "ipv4_src", "ipv4_dst"}
    | {"tcp_src", "tcp_dst", "udp_src", "udp_dst"}
)
"""The fields that identify requests to services and their replies."""

_DECLARED: Final = (
    Table(
        id=TableId.INPUT,
        matches=frozenset(
            {"in_port", "eth_type", "eth_src", "vlan_vid", "ip_proto", "udp_src", "udp_dst"}
            | {"arp_op", "arp_spa", "arp_tpa", "arp_sha"}
            | {"ipv4_src", "ipv6_src", "icmpv6_type", "nd_target"}
        ),
        actions=frozenset({"output", "pop_vlan"}),
        writes=VRF.mask | RX_VTEP.mask | TO_HOST.mask,
        next=frozenset(
            {TableId.VLAN, TableId.INGRESS_GROUP, TableId.DST_GRP, TableId.IP, TableId.NEIGHBOURS}
        ),
        misses=_everywhere(goto(TableId.VLAN)),
    ),
    Table(
        id=TableId.VLAN,
        matches=frozenset({"in_port", "eth_type", "tunnel_id", "vlan_vid"}),
        actions=frozenset({"ip_dscp", "push_vlan", "vlan_vid"}),
        writes=VRF.mask | SOURCE_GROUP.mask | RX_VTEP.mask | FROM_HOST.mask,
        next=frozenset(
            {TableId.INGRESS_GROUP, TableId.SRV_PROXY_DNAT, TableId.DST_GRP, TableId.SRV_PROXY_SNAT}
        ),
        # vlan mode forwards packets of unknown ports, as the original does; the others drop them
        misses={**_everywhere(DROP), Mode.VLAN: goto(TableId.DST_GRP)},
    ),
    Table(
        id=TableId.INGRESS_GROUP,
        matches=frozenset({"in_port", "eth_type", "ipv4_dst", "metadata", "ipv4_src", "ipv6_src"}),
        actions=frozenset({"eth_dst", "ipv4_dst", "output"}),
        writes=VRF.mask | SOURCE_GROUP.mask | FROM_HOST.mask,
        next=frozenset({TableId.DST_GRP, TableId.SRV_PROXY_SNAT}),
        misses={Mode.VROUTER: DROP},
    ),
    Table(
        id=TableId.SRV_PROXY_DNAT,
        matches=_CONNECTION | {"vlan_vid"},
        actions=frozenset(
            {"eth_src", "eth_dst", "ipv4_src", "ipv4_dst", "pop_vlan", "output"}
            | {"tcp_src", "tcp_dst", "udp_src", "udp_dst"}
        ),
        next=frozenset({TableId.DST_GRP}),
        misses=_everywhere(goto(TableId.DST_GRP)),
    ),
    Table(
        id=TableId.DST_GRP,
        matches=frozenset({"eth_type", "metadata", "ipv4_dst", "ipv6_dst"}),
        writes=DESTINATION_GROUP.mask | MANAGEMENT.mask,
        next=frozenset({TableId.POLICY}),
        misses=_everywhere(goto(TableId.POLICY)),
    ),
    Table(
        id=TableId.POLICY,
        matches=frozenset(
            {"eth_type", "metadata", "ip_proto", "icmpv6_type", "tcp_flags"}
            | {"ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst"}
            | {"tcp_src", "tcp_dst", "udp_src", "udp_dst"}
        ),
        next=frozenset({TableId.SRV_PROXY_SNAT, TableId.HOST_SNAT}),
        misses=_everywhere(goto(TableId.SRV_PROXY_SNAT)),
    ),
    Table(
        id=TableId.SRV_PROXY_SNAT,
        matches=_CONNECTION,
        actions=frozenset({"ipv4_src", "tcp_src", "udp_src"}),
        next=frozenset({TableId.IP, TableId.MAC_DEST}),
        misses={
            Mode.VLAN: _BRIDGED,
            Mode.VXLAN: _BRIDGED,
            Mode.VLROUTER: _ROUTED,
            Mode.VROUTER: _ROUTED,
        },
    ),
    Table(
        id=TableId.IP,
        matches=frozenset({"in_port", "eth_type", "metadata", "vlan_vid", "ipv4_dst", "ipv6_dst"}),
        actions=frozenset(
            {"eth_src", "eth_dst", "tunnel_id", "push_vlan", "vlan_vid", "pop_vlan", "output"}
        ),
        next=frozenset({TableId.HOST_SNAT}),
        misses={Mode.VROUTER: goto(TableId.HOST_SNAT), Mode.VLROUTER: DROP},
    ),
    Table(
        id=TableId.HOST_SNAT,
        matches=frozenset({"in_port", "eth_type", "ipv4_dst"}),
        actions=frozenset({"eth_dst", "ipv4_src", "ip_dscp", "output"}),
        misses={Mode.VROUTER: DROP},
    ),
    Table(
        id=TableId.MAC_DEST,
        matches=frozenset({"metadata", "vlan_vid", "eth_dst"}),
        actions=frozenset({"pop_vlan", "tunnel_id", "output"}),
        misses={
            Mode.VLAN: Instructions(actions=(Output(PORT_NORMAL),)),
            Mode.VXLAN: DROP,
        },
    ),
    Table(
        id=TableId.NEIGHBOURS,
        matches=frozenset(
            {"metadata", "eth_type", "arp_tpa", "ip_proto", "icmpv6_type", "nd_target"}
        ),
        actions=frozenset(
            {"output", "move", "eth_src", "arp_op", "arp_sha", "arp_spa", "ipv6_src"}
            | {"nd_options_type", "nd_reserved", "icmpv6_type"}
        ),
        next=frozenset({TableId.NEIGHBOUR_REPLY}),
    ),
    Table(
        id=TableId.NEIGHBOUR_REPLY,
        matches=frozenset({"eth_type", "ip_proto", "icmpv6_type"}),
        actions=frozenset({"nd_tll", "output"}),
    ),
)

TABLES: Final[Mapping[TableId, Table]] = {table.id: table for table in _DECLARED}
