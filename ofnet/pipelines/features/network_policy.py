"""Kubernetes' network policies: tables 24 to 31, the same in all four pipelines.

In come the addresses of this host's pods that policies select (`PolicySubject`) and the matches
that `netplugin.world.kubernetes` derives (`PolicyEntry`). A packet from or to a subject leaves
table 6 for connection tracking, passes the stages of both directions once for its connection, and
comes back to table 6 marked as judged. Packets of other pods never get here.
"""

# Order. Contiv's own rules (table 5) come first; what they allow, Kubernetes' policies judge. So a
# packet passes if both allow it. Addresses are those of the pods themselves: services have been
# translated (table 3) and their answers not yet translated back (table 6), as Kubernetes wants it.
#
# Policies are about connections: answers pass by the connection's state, whatever the policies say
# of the other direction. Both directions of a subject's packets are sent through the zone, or
# connection tracking would see half of each connection and call the other half invalid. A
# connection that was allowed stays so while it is in use, also when a policy changes.
#
# Connection tracking holds the fragments of a packet until it is complete. Then the first, which
# has the ports, is judged, and the others go on: `ofnet.pipelines.packet_path.fragments` lets none
# of them pass without the first. So this comes before it (KUBE_SUBJECT is above FRAGMENT).
#
# What a host forwards is looked up in another zone (`ofnet.pipelines.features.host_forwarding`) and
# comes here without tracking, if it is new there.
#
# Each host judges for its own pods: the sender's host the egress, the receiver's host the ingress.

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Conjunction, Conntrack, Instructions, Lookup, goto
from ofnet.openflow.fields import (
    CT_ESTABLISHED,
    CT_INVALID,
    CT_NEW,
    CT_RELATED,
    CT_TRACKED,
    FORWARDED,
    FRAGMENT_LATER,
    JUDGED,
    VRF,
    CtState,
    Ports,
)
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features.feature import Feature
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Mode, Priority, TableId, judged, vrf_in
from ofnet.world import PolicyEntry, PolicyMatch, PolicyStage, PolicySubject, Verdict, World

ZONE: Final = {Mode.VROUTER: 0x6000, Mode.VXLAN: 0x6000, Mode.VLROUTER: 0x6100, Mode.VLAN: 0x6100}
"""The first connection tracking zone of each bridge; the VRF is added. Bridges share no zone."""

_TABLES: Final = {
    PolicyStage.EGRESS_ADMIN: TableId.KUBE_EGRESS_ADMIN,
    PolicyStage.EGRESS: TableId.KUBE_EGRESS,
    PolicyStage.EGRESS_BASELINE: TableId.KUBE_EGRESS_BASELINE,
    PolicyStage.INGRESS_ADMIN: TableId.KUBE_INGRESS_ADMIN,
    PolicyStage.INGRESS: TableId.KUBE_INGRESS,
    PolicyStage.INGRESS_BASELINE: TableId.KUBE_INGRESS_BASELINE,
}
_PORT_FIELDS: Final = {
    oxm.PROTO_TCP: "tcp_dst",
    oxm.PROTO_UDP: "udp_dst",
    oxm.PROTO_SCTP: "sctp_dst",
}
_ALLOWED: Final = judged(TableId.KUBE_ALLOWED)


def states() -> Iterator[Flow]:
    """Yield the flows that judge packets by the state of their connection."""
    for state in (CT_ESTABLISHED, CT_RELATED):
        known = CtState(CT_TRACKED | state, CT_TRACKED | CT_NEW | CT_INVALID | state)
        yield _by_state(known, _ALLOWED)
    invalid = CtState(CT_TRACKED | CT_INVALID, CT_TRACKED | CT_INVALID)
    yield _by_state(invalid, DROP)
    for eth_type in (oxm.ETH_IPV4, oxm.ETH_IPV6):
        later: MatchFields = {"eth_type": eth_type, "ip_frag": FRAGMENT_LATER}
        back = Instructions(actions=(Lookup(TableId.SRV_PROXY_SNAT),))
        for table, instructions in ((TableId.KUBE_POLICY, _ALLOWED), (TableId.KUBE_ALLOWED, back)):
            yield _flow(ObjectKind.PIPELINE, table, Priority.FRAGMENT, later, instructions)


def _by_state(state: CtState, instructions: Instructions) -> Flow:
    match = Match(ct_state=state)
    return Flow(ObjectKind.PIPELINE, TableId.KUBE_POLICY, Priority.MATCH, match, instructions)


def subject(mode: Mode, subject: PolicySubject, _world: World) -> Iterator[Flow]:
    """Yield the flows that send packets from and to a pod through the stages."""
    vrf = vrf_in(mode, subject.vrf)
    zone = ZONE[mode] + vrf
    tracked = Instructions(actions=(Conntrack(table=TableId.KUBE_POLICY, zone=zone),))
    unjudged = VRF.put(vrf) | JUDGED.put(0)
    for end in (stages.to_address(subject.address), stages.from_address(subject.address)):
        fields: MatchFields = {"metadata": unjudged, **end}
        yield _flow(
            ObjectKind.POLICY_SUBJECT,
            TableId.SRV_PROXY_SNAT,
            Priority.KUBE_SUBJECT,
            fields,
            tracked,
        )
    forwarded: MatchFields = {"metadata": unjudged | FORWARDED.put(1)}
    forwarded |= stages.to_address(subject.address)
    yield _flow(
        ObjectKind.POLICY_SUBJECT,
        TableId.SRV_PROXY_SNAT,
        Priority.KUBE_FORWARDED,
        forwarded,
        goto(TableId.KUBE_POLICY),
    )
    version = oxm.ETH_IPV4 if subject.address.version == 4 else oxm.ETH_IPV6
    new = CtState(CT_TRACKED | CT_NEW, CT_TRACKED | CT_NEW)
    commit = Conntrack(table=TableId.SRV_PROXY_SNAT, zone=zone, commit=True)
    yield _flow(
        ObjectKind.POLICY_SUBJECT,
        TableId.KUBE_ALLOWED,
        Priority.MATCH,
        {"metadata": VRF.put(vrf), "eth_type": version, "ct_state": new},
        Instructions(actions=(commit,)),
    )


def entry(mode: Mode, entry: PolicyEntry, _world: World) -> Iterator[Flow]:
    """Yield the flow of a match of a stage."""
    match = entry.match
    table = _TABLES[match.stage]
    if entry.verdict is None:
        parts = tuple(
            Conjunction(one.conjunction, one.clause, one.clauses) for one in entry.memberships
        )
        instructions = Instructions(actions=parts)
    else:
        instructions = _verdict(table, entry.verdict)
    yield _flow(ObjectKind.POLICY_ENTRY, table, match.priority, _fields(mode, match), instructions)


def _verdict(table: TableId, verdict: Verdict) -> Instructions:
    egress = table < TableId.KUBE_INGRESS_ADMIN
    match verdict:
        case Verdict.DENY:
            return DROP
        case Verdict.ALLOW:
            return goto(TableId.KUBE_INGRESS_ADMIN) if egress else _ALLOWED
        case Verdict.PASS:
            return goto(TableId(table + 1))


def _fields(mode: Mode, match: PolicyMatch) -> MatchFields:
    if match.conjunction:
        return {"conj_id": match.conjunction}
    fields: MatchFields = {}
    if match.vrf:
        fields["metadata"] = VRF.put(vrf_in(mode, match.vrf))
    if match.version:
        fields["eth_type"] = oxm.ETH_IPV4 if match.version == 4 else oxm.ETH_IPV6
    if match.protocol:
        fields["ip_proto"] = match.protocol
    if match.port_mask:
        exact = match.port_mask == 0xFFFF
        port = match.port if exact else Ports(match.port, match.port_mask)
        fields[_PORT_FIELDS[match.protocol]] = port  # type: ignore[literal-required]
    if match.source is not None:
        fields |= stages.from_address(_shortest(match.source))
    if match.destination is not None:
        fields |= stages.to_address(_shortest(match.destination))
    return fields


def _shortest(where: stages.Where) -> stages.Where:
    return where if isinstance(where, IPv4Address | IPv6Address) else oxm.shortest(where)


def _flow(
    owner: ObjectKind,
    table: TableId,
    priority: int,
    fields: MatchFields,
    instructions: Instructions,
) -> Flow:
    return Flow(owner, table, priority, Match(**fields), instructions)


def feature(mode: Mode) -> Feature:
    """Return the flows of Kubernetes' policies."""
    return {
        ObjectKind.PIPELINE: lambda *_: states(),
        ObjectKind.POLICY_SUBJECT: partial(subject, mode),
        ObjectKind.POLICY_ENTRY: partial(entry, mode),
    }
