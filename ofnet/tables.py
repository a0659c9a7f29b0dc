"""The tables of the pipelines: what each may match, do, write and go to. Pure.

Ids and priorities are the original's. The paths of packets through the tables:

* from a local endpoint: 0, 1, 3, 4, 5, 6, then 9 or 7 (and 8 or 12);
* from a tunnel or an uplink: 0, 1, 2, then 4 and 5 if a known endpoint sent it, 6, then 9 or 7;
* from the host itself by its port: 0, 2, and on to the pod; to a private address 0, 2, 6, 7;
* forwarded by this host or, by its tunnel, by another one: 0, 2, then 4, 5, 6, and 9 or 7;
* to a service: 0, 1, 3, then 12 (by 13 and 14 with affinity), 4 and on; answers: 6, 7 or 9;
* to a service from its own provider: 0, 1, 3, 12 (UDP: 17, 15) and back, its answers 0, 1, 3, 15
  and back;
* from a pod's interface to its host: 0, 4, 5, 8;
* a pod's answers to its host: 0, 1, 3, 4; to another host: 0, 1, 3, 4, 16;
* ARP and ND requests: 0, 10, 11;
* probes of tunnels: 0, 1, and back, answers to the agent;
* DNS of pods: 0, 23, then to the agent, or back to 0 and on as any packet;
* DNS to the agent's own address: as any packet to table 7 or 9, and from there to the agent.
"""

# `ofnet.flows.Flow` refuses a flow outside its table's declaration. The declarations are therefore
# the whole graph of the pipelines: no module can build a flow that goes to a table its stage does
# not lead to, or that overwrites metadata of another stage. `next` has higher numbers alone, as
# OpenFlow requires.

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from ofnet.openflow.actions import DROP, PORT_NORMAL, Instructions, Lookup, Output, goto
from ofnet.openflow.fields import (
    DESTINATION_GROUP,
    FORWARDED,
    FROM_HOST,
    JUDGED,
    MANAGEMENT,
    REASSEMBLED,
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


FLAT_VRF: Final = 1
"""The VRF of all tenants where vlan networks are routed; the original's `default`."""

_ZONES: Final[Mapping[Mode, int]] = {
    Mode.VROUTER: 0xC000,
    Mode.VXLAN: 0xC000,
    Mode.VLROUTER: 0xC100,
    Mode.VLAN: 0xC100,
}


def vrf_in(mode: Mode, vrf: int) -> int:
    """Return the VRF that packets of a tenant have in a pipeline."""
    return FLAT_VRF if mode is Mode.VLROUTER else vrf


def zone_of(mode: Mode, vrf: int) -> int:
    """Return the zone of connection tracking for services' clients in a VRF of a bridge.

    Both bridges of a host share connection tracking, and so do other users of the kernel's. So each
    bridge has 256 zones of its own, from numbers that others hardly reach.
    """
    return _ZONES[mode] + vrf


def service_zones(vrfs: Iterable[int]) -> frozenset[int]:
    """Return the zones of both bridges for services' clients in these VRFs."""
    return frozenset(zone_of(mode, vrf_in(mode, vrf)) for mode in Mode for vrf in vrfs)


def hairpin_zone_of(mode: Mode, vrf: int) -> int:
    """Return the zone in which a pod that is its own provider gets the service as its client."""
    return zone_of(mode, vrf) + 0x300


def fragment_zone_of(vrf: int) -> int:
    """Return the zone in which fragments to and from the host's private network are translated.

    One for each VRF, since tenants' addresses overlap; `vrouter` alone has such a network.
    """
    return 0xC200 + vrf


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
    SERVICES = 12
    AFFINITY = 13
    CHOICE = 14
    HAIRPIN = 15
    HOST_ANSWERS = 16
    HAIRPIN_SOURCE = 17
    POLICY_LOG = 18
    """New connections that a rule with `log` allows, or one with `audit` would deny."""

    SHORT_PREFIXES = 22
    """IPv6 prefixes learned by BGP that are too short for the priorities of table 7."""

    NAMES = 23
    KUBE_POLICY = 24
    KUBE_EGRESS_ADMIN = 25
    KUBE_EGRESS = 26
    KUBE_EGRESS_BASELINE = 27
    KUBE_INGRESS_ADMIN = 28
    KUBE_INGRESS = 29
    KUBE_INGRESS_BASELINE = 30
    KUBE_ALLOWED = 31


class Priority(IntEnum):
    """The priorities in use; a higher one wins."""

    MISS = 1
    SHORT_PREFIXES = 2
    """To the table of short prefixes, for packets that nothing else in table 7 matches."""

    GUARD = 5
    GUARD_PASS = 6
    GUARD_NEVER = 7
    GUARD_EXCEPT = 8
    UNLISTED = 9
    PORT = 10
    GRANTED = 50
    SHORTEST_PREFIX = 20
    """Of a default route; each bit of a prefix adds one."""

    HOST_ELSEWHERE = 58
    HOST_UNCHANGED = 59
    HOST_ERROR = 59
    HOST_PATH = 60
    HOST_FORGED = 61
    HOST_KNOWN = 62
    NAMES = 98
    SHARED = 98
    SHARED_BESIDE = 99
    HOST_PORT = 99
    MATCH = 100
    ABOVE_MATCH = 101
    EXEMPT = 102
    UNTAGGED = 102
    OWN_SOURCE = 103
    TAGGED = 103
    UNTRANSLATED = 103
    OWN_DNS = 104
    REQUEST = 110
    DESTINATION_CLASS = 120
    """Above all rules, whose priorities end with 110."""

    SOURCE_CLASS = 121
    ANNOUNCEMENT = 111
    TO_HOST = 150
    NEIGHBOURS = 200
    MANAGEMENT = 201
    FORWARDED = 205
    FRAGMENT = 210
    KUBE_SUBJECT = 220
    KUBE_FORWARDED = 221
    KUBE_NEIGHBOURS = 222
    OWN_ARP = 300
    BARRED = 310


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The declaration of one table.

    `writes` has the metadata bits its flows may set; `resumes` has the tables in which packets go
    on that its flows send through connection tracking, lower ones as well; `misses` has the
    instructions for packets that match no flow, for each mode that has the table.
    """

    id: TableId
    matches: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    writes: int = 0
    next: frozenset[TableId] = frozenset()
    resumes: frozenset[TableId] = frozenset()
    misses: Mapping[Mode, Instructions] = field(default_factory=dict)


def _everywhere(miss: Instructions) -> dict[Mode, Instructions]:
    return dict.fromkeys(Mode, miss)


_ROUTED: Final = goto(TableId.IP)
_BRIDGED: Final = goto(TableId.MAC_DEST)
_PACKET: Final = frozenset({"eth_type", "metadata", "ip_proto", "ip_frag"})
_REQUEST: Final = _PACKET | {"ipv4_dst", "ipv6_dst", "tcp_dst", "udp_dst"}
_ANSWER: Final = _PACKET | {"ipv4_src", "ipv6_src", "tcp_src", "udp_src"}
_DELIVERED: Final = frozenset(
    {"in_port", "eth_type", "metadata", "vlan_vid", "ipv4_dst", "ipv6_dst"}
    | {"ip_proto", "tcp_dst", "udp_dst"}
)
"""The fields by which a packet finds its way out; those of ports lead to the agent as a server."""

_OF_RULES: Final = frozenset(
    {"eth_type", "metadata", "ip_proto", "tcp_flags", "tcp_src", "tcp_dst", "udp_src", "udp_dst"}
    | {"ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst", "reg2", "reg3", "reg4"}
)
_TRACKED: Final = frozenset({"ct_state", "ct_nw_proto", "ct_tp_dst"})
"""The fields that identify requests to services, and answers of their providers."""


def _kube_stage(table: TableId, allowed: TableId) -> Table:
    """Return the table of a stage of Kubernetes' policies; what no rule decides goes on."""
    following = TableId(table + 1)
    last = following is TableId.KUBE_ALLOWED
    return Table(
        id=table,
        matches=frozenset(
            {"conj_id", "metadata", "eth_type", "ip_proto", "tcp_dst", "udp_dst", "sctp_dst"}
            | {"ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst"}
        ),
        actions=frozenset({"conjunction", "report"}),
        writes=JUDGED.mask,
        next=frozenset({following, allowed}),
        misses=_everywhere(judged(following) if last else goto(following)),
    )


def judged(following: TableId) -> Instructions:
    """Return the instructions that mark a packet as passed by Kubernetes' policies."""
    return Instructions(metadata=JUDGED.put(1), goto=following)


_DECLARED: Final = (
    Table(
        id=TableId.INPUT,
        matches=frozenset(
            {"in_port", "eth_type", "eth_src", "vlan_vid", "ip_proto", "udp_src", "udp_dst"}
            | {"arp_op", "arp_spa", "arp_tpa", "arp_sha"}
            | {"ipv4_src", "ipv6_src", "icmpv6_type", "nd_target"}
            | {"ipv4_dst", "ipv6_dst", "tcp_src", "tcp_dst"}
        ),
        actions=frozenset(
            {"meter", "output", "pop_vlan", "bundle_load", "ct_note", "ct_clear"}
            | {"eth_dst", "ipv4_dst", "ipv6_dst"}
            | {"report"}
        ),
        writes=VRF.mask | RX_VTEP.mask | TO_HOST.mask | FROM_HOST.mask,
        next=frozenset(
            {TableId.VLAN, TableId.INGRESS_GROUP, TableId.DST_GRP, TableId.IP}
            | {TableId.NEIGHBOURS, TableId.NAMES}
        ),
        misses=_everywhere(goto(TableId.VLAN)),
    ),
    Table(
        id=TableId.VLAN,
        matches=frozenset({"in_port", "eth_type", "tunnel_id", "vlan_vid"}),
        actions=frozenset(
            {"meter", "ip_dscp", "push_vlan", "vlan_vid", "tunnel_id", "output", "report"}
            | {"ct_clear"}
        ),
        writes=VRF.mask | SOURCE_GROUP.mask | RX_VTEP.mask | FROM_HOST.mask,
        next=frozenset(
            {TableId.INGRESS_GROUP, TableId.SRV_PROXY_DNAT, TableId.DST_GRP, TableId.SRV_PROXY_SNAT}
        ),
        # vlan mode forwards packets of unknown ports, as the original does; the others drop them
        misses={**_everywhere(DROP), Mode.VLAN: goto(TableId.DST_GRP)},
    ),
    Table(
        id=TableId.INGRESS_GROUP,
        matches=frozenset(
            {"in_port", "eth_type", "metadata", "ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst"}
            | {"arp_spa", "arp_sha", "ip_proto", "icmp_type", "icmpv6_type", "nd_target", "ip_frag"}
            | {"ct_state", "ct_zone", "vlan_vid"}
        ),
        actions=frozenset(
            {"ct", "ct_commit", "eth_src", "eth_dst", "ipv4_dst", "ipv6_dst", "load", "tunnel_id"}
            | {"output", "pop_vlan", "push_vlan", "vlan_vid", "lookup", "report"}
        ),
        resumes=frozenset({TableId.INGRESS_GROUP, TableId.SRV_PROXY_SNAT}),
        writes=VRF.mask | SOURCE_GROUP.mask | FROM_HOST.mask | FORWARDED.mask | JUDGED.mask,
        next=frozenset({TableId.DST_GRP, TableId.SRV_PROXY_SNAT}),
        misses={Mode.VROUTER: DROP},
    ),
    Table(
        id=TableId.SRV_PROXY_DNAT,
        matches=_REQUEST
        | {"ipv4_src", "ipv6_src", "ct_state", "ct_zone", "icmp_type", "icmpv6_type", "nd_target"},
        actions=frozenset({"ct", "deal", "eth_src", "move", "output", "report"}),
        next=frozenset({TableId.DST_GRP, TableId.NEIGHBOURS}),
        resumes=frozenset(
            {TableId.SRV_PROXY_DNAT, TableId.DST_GRP, TableId.SERVICES, TableId.HAIRPIN}
        ),
        misses=_everywhere(goto(TableId.DST_GRP)),
    ),
    Table(
        id=TableId.DST_GRP,
        matches=frozenset(
            {"in_port", "eth_type", "vlan_vid", "metadata", "ipv4_dst", "ipv6_dst"}
            | {"ct_state", "ct_zone"}
        ),
        actions=frozenset({"ct", "pop_vlan", "eth_dst", "tunnel_id", "output"}),
        writes=DESTINATION_GROUP.mask | MANAGEMENT.mask,
        next=frozenset({TableId.POLICY, TableId.HOST_ANSWERS}),
        resumes=frozenset({TableId.DST_GRP}),
        misses=_everywhere(goto(TableId.POLICY)),
    ),
    Table(
        id=TableId.POLICY,
        matches=_OF_RULES | {"ip_frag", "icmpv6_type"},
        actions=frozenset({"report", "reg2", "reg3", "reg4", "lookup"}),
        next=frozenset({TableId.SRV_PROXY_SNAT, TableId.HOST_SNAT, TableId.POLICY_LOG}),
        resumes=frozenset({TableId.POLICY}),
        misses=_everywhere(goto(TableId.SRV_PROXY_SNAT)),
    ),
    Table(
        id=TableId.SRV_PROXY_SNAT,
        matches=_ANSWER
        | {"ipv4_dst", "ipv6_dst", "icmp_type", "icmpv6_type", "ct_state", "ct_zone"},
        actions=frozenset({"ct", "ct_commit", "deal", "load", "move"}),
        writes=REASSEMBLED.mask,
        next=frozenset({TableId.IP, TableId.MAC_DEST, TableId.KUBE_POLICY}),
        resumes=frozenset(
            {TableId.SRV_PROXY_SNAT, TableId.KUBE_POLICY, TableId.IP, TableId.MAC_DEST}
        ),
        misses={
            Mode.VLAN: _BRIDGED,
            Mode.VXLAN: _BRIDGED,
            Mode.VLROUTER: _ROUTED,
            Mode.VROUTER: _ROUTED,
        },
    ),
    Table(
        id=TableId.IP,
        matches=_DELIVERED,
        actions=frozenset(
            {"eth_src", "eth_dst", "tunnel_id", "push_vlan", "vlan_vid", "pop_vlan", "output"}
            | {"ipv4_src", "ipv6_src", "report"}
        ),
        next=frozenset({TableId.HOST_SNAT, TableId.SHORT_PREFIXES}),
        misses={Mode.VROUTER: goto(TableId.HOST_SNAT), Mode.VLROUTER: DROP},
    ),
    Table(
        id=TableId.HOST_SNAT,
        matches=frozenset(
            {"in_port", "eth_type", "ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst", "ip_proto"}
            | {"ip_frag", "ct_zone"}
        ),
        actions=frozenset({"ct", "eth_dst", "ipv4_src", "ipv6_src", "ip_dscp", "output", "report"}),
        resumes=frozenset({TableId.HOST_SNAT}),
        misses={Mode.VROUTER: DROP},
    ),
    Table(
        id=TableId.MAC_DEST,
        matches=_DELIVERED | {"eth_dst"},
        actions=frozenset(
            {"pop_vlan", "tunnel_id", "output", "eth_dst", "ipv4_src", "ipv6_src", "report"}
        ),
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
        matches=frozenset({"metadata", "eth_type", "ip_proto", "icmpv6_type", "vlan_vid"}),
        actions=frozenset({"nd_tll", "output", "pop_vlan"}),
    ),
    Table(
        id=TableId.SERVICES,
        matches=_REQUEST | _TRACKED | {"ipv4_src", "ipv6_src", "vlan_vid"},
        actions=frozenset(
            {"ct", "deal", "eth_dst", "eth_src", "group", "lookup", "move", "output", "pop_vlan"}
            | {"report"}
        ),
        next=frozenset({TableId.CHOICE, TableId.HAIRPIN_SOURCE}),
        resumes=frozenset({TableId.DST_GRP, TableId.SERVICES, TableId.AFFINITY}),
        misses=_everywhere(Instructions((Lookup(TableId.DST_GRP),))),
    ),
    # of learned flows alone
    Table(id=TableId.AFFINITY),
    Table(
        id=TableId.CHOICE,
        matches=_REQUEST | _TRACKED | {"reg0", "reg1", "ipv4_src", "ipv6_src"},
        actions=frozenset({"ct", "learn"}),
        resumes=frozenset({TableId.DST_GRP, TableId.SERVICES, TableId.AFFINITY}),
    ),
    Table(
        id=TableId.HAIRPIN,
        matches=frozenset({"ct_state", "ct_zone", "vlan_vid"}),
        actions=frozenset({"pop_vlan", "output"}),
    ),
    Table(
        id=TableId.HOST_ANSWERS,
        matches=frozenset({"eth_type", "ipv4_dst", "ipv6_dst"}),
        actions=frozenset({"eth_dst", "output"}),
    ),
    Table(
        id=TableId.HAIRPIN_SOURCE,
        matches=frozenset({"eth_type", "metadata", "ct_state", "ct_nw_dst", "ct_ipv6_dst"}),
        actions=frozenset({"ct"}),
        resumes=frozenset({TableId.HAIRPIN}),
    ),
    Table(
        id=TableId.POLICY_LOG,
        matches=_OF_RULES,
        actions=frozenset({"report", "reg4", "lookup"}),
        resumes=frozenset({TableId.SRV_PROXY_SNAT, TableId.POLICY}),
    ),
    Table(
        id=TableId.SHORT_PREFIXES,
        matches=frozenset({"eth_type", "metadata", "ipv6_dst"}),
        actions=frozenset({"eth_src", "eth_dst", "output"}),
    ),
    Table(
        id=TableId.KUBE_POLICY,
        matches=frozenset({"ct_state", "eth_type", "ip_frag", "metadata"}),
        actions=frozenset({"report"}),
        writes=JUDGED.mask,
        next=frozenset(
            {TableId.KUBE_EGRESS_ADMIN, TableId.KUBE_INGRESS_ADMIN, TableId.KUBE_ALLOWED}
        ),
        resumes=frozenset({TableId.SRV_PROXY_SNAT}),
        misses=_everywhere(goto(TableId.KUBE_EGRESS_ADMIN)),
    ),
    _kube_stage(TableId.KUBE_EGRESS_ADMIN, TableId.KUBE_INGRESS_ADMIN),
    _kube_stage(TableId.KUBE_EGRESS, TableId.KUBE_INGRESS_ADMIN),
    _kube_stage(TableId.KUBE_EGRESS_BASELINE, TableId.KUBE_INGRESS_ADMIN),
    _kube_stage(TableId.KUBE_INGRESS_ADMIN, TableId.KUBE_ALLOWED),
    _kube_stage(TableId.KUBE_INGRESS, TableId.KUBE_ALLOWED),
    _kube_stage(TableId.KUBE_INGRESS_BASELINE, TableId.KUBE_ALLOWED),
    Table(
        id=TableId.KUBE_ALLOWED,
        matches=frozenset({"ct_state", "eth_type", "ip_frag", "metadata"}),
        actions=frozenset({"ct", "lookup"}),
        resumes=frozenset({TableId.SRV_PROXY_SNAT}),
        misses=_everywhere(Instructions(actions=(Lookup(TableId.SRV_PROXY_SNAT),))),
    ),
    Table(
        id=TableId.NAMES,
        matches=frozenset({"metadata", "in_port", "eth_type", "ip_proto", "ip_dscp"}),
        actions=frozenset(
            {"push_vlan", "vlan_vid", "ip_dscp", "lookup", "output"}
            | {"eth_dst", "ipv4_src", "ipv6_src"}
        ),
        resumes=frozenset({TableId.INPUT}),
    ),
)

TABLES: Final[Mapping[TableId, Table]] = {table.id: table for table in _DECLARED}
