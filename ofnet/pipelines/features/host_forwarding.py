"""What hosts forward to pods: the outside's connections by node port, external address, host port.

The host's kernel has translated the target; the source is the client's own, or one that stands for
pods (`HostPort.address`, `FORWARDED_SOURCE6`). So what comes in by the host's port is told from the
host's own connections by its source. It takes the ordinary way through the policies of both kinds,
as from an address outside, and its connection is entered for the answers once they passed it. What
the host sends itself goes past them (`ofnet.pipelines.features.host_paths`). The same in all four
pipelines.
"""

# Invariant: a packet from the host's port, or of another host from a tunnel, whose source is no
# address of this host is delivered to a pod of this one by tables 5, 6 and those of Kubernetes'
# policies alone. A connection that they deny is never entered, so nothing of the pod is an answer
# to it.
#
# The zone of the host's connections is looked up first, since Kubernetes' policies judge new
# connections alone. Their own zone is left out: answers leave from table 4 and would be missing
# there. Contiv's rules judge each packet. An error about a connection that was entered passes like
# an answer.
#
# Fragments wait in that look-up until their packet is complete. In table 6 they do so once more,
# below the flow to Kubernetes' policies and above the one that enters the connection: if the first
# fragment was denied, its packet never is.
#
# Pods of other hosts (vxlan networks): the other host accepts this host's address alone. Connection
# tracking puts it in place of any other source, and the client's back in answers. That host judges
# by what it knows, this host's address, for what this host sends itself as well.

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    AS_COMMITTED,
    DROP,
    Action,
    Conntrack,
    ConntrackClear,
    ConntrackCommit,
    Instructions,
    Load,
    Lookup,
    Nat,
    Output,
    SetField,
    goto,
    tag,
)
from ofnet.openflow.fields import (
    CT_ESTABLISHED,
    CT_INVALID,
    CT_RELATED,
    CT_TRACKED,
    FORWARDED,
    FROM_HOST,
    JUDGED,
    RX_VTEP,
    VRF,
    CtState,
)
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features import service_nat
from ofnet.pipelines.features.feature import Feature
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Mode, Priority, TableId, vrf_in
from ofnet.world import HostPort, LocalEndpoint, Network

_ROUTED: Final = frozenset({Mode.VROUTER, Mode.VLROUTER})
_FAMILIES: Final = (oxm.ETH_IPV4, oxm.ETH_IPV6)
_UNTRACKED: Final = CtState(0, CT_TRACKED)
_TRACKED: Final = CtState(CT_TRACKED, CT_TRACKED | CT_INVALID)
_INVALID: Final = CtState(CT_TRACKED | CT_INVALID, CT_TRACKED | CT_INVALID)
_RELATED: Final = CtState(CT_TRACKED | CT_RELATED, CT_TRACKED | CT_RELATED | CT_INVALID)
_KNOWN: Final = CtState(
    CT_TRACKED | CT_ESTABLISHED, CT_TRACKED | CT_ESTABLISHED | CT_RELATED | CT_INVALID
)
_FOREIGN: Final = FROM_HOST.put(0)
_OF_HOST: Final = Load(FROM_HOST, 1)
_AGAIN: Final = Lookup(TableId.INGRESS_GROUP)
ENTERED: Final = Instructions((ConntrackClear(),), goto=TableId.INGRESS_GROUP)
"""Where packets from the host's port go, without the state of the host's own connection tracking.

On the kernel's datapath they come with that state, and flows would take it for their zone's.
"""


def own_sources(port: HostPort) -> Iterator[Flow]:
    """Yield the flows of table 0 that mark what the host itself sends."""
    # above the interception of DNS, which the MAC of `contivh0` would be taken for
    own = Instructions(ENTERED.actions, FROM_HOST.put(1), TableId.INGRESS_GROUP)
    for address in sorted(port.own, key=str):
        sent: MatchFields = {"in_port": port.ofport, **stages.from_address(address)}
        yield _of_port(TableId.INPUT, Priority.OWN_SOURCE, sent, own)


def looked_up(port: HostPort, zone: int, *, commits_errors: bool) -> Iterator[Flow]:
    """Yield the look-up of what the host forwards, and what follows from it for any pod."""
    come: MatchFields = {"in_port": port.ofport, "metadata": _FOREIGN}
    look_up = Instructions((Conntrack(TableId.INGRESS_GROUP, zone, nat=AS_COMMITTED),))
    for eth_type in _FAMILIES:
        new: MatchFields = {**come, "eth_type": eth_type, "ct_state": _UNTRACKED}
        yield _of_port(TableId.INGRESS_GROUP, Priority.HOST_ELSEWHERE, new, look_up)
    if commits_errors:
        yield from _errors({**come, "ct_state": _UNTRACKED}, zone)
    invalid: MatchFields = {**come, "ct_state": _INVALID}
    yield _of_port(TableId.INGRESS_GROUP, Priority.HOST_KNOWN, invalid, DROP)
    related: MatchFields = {**come, "ct_state": _RELATED}
    passed = Instructions((_OF_HOST, _AGAIN))
    yield _of_port(TableId.INGRESS_GROUP, Priority.HOST_KNOWN, related, passed)
    known: MatchFields = {**come, "metadata": _FOREIGN | JUDGED.put(0), "ct_state": _KNOWN}
    judged = Instructions((Load(JUDGED, 1), _AGAIN))
    yield _of_port(TableId.INGRESS_GROUP, Priority.HOST_KNOWN, known, judged)


def _errors(come: MatchFields, zone: int) -> Iterator[Flow]:
    """Yield the flows of errors of ICMP, which go the way of their connections.

    The kernel's datapath translates them if told to commit alone (`service_nat`).
    """
    commit = Instructions((Conntrack(TableId.INGRESS_GROUP, zone, commit=True, nat=AS_COMMITTED),))
    where = TableId.INGRESS_GROUP, Priority.HOST_ERROR
    for kind in service_nat.ERRORS4:
        four: MatchFields = {**come, "eth_type": oxm.ETH_IPV4, "ip_proto": oxm.PROTO_ICMP}
        yield _of_port(*where, {**four, "icmp_type": kind}, commit)
    for kind in service_nat.ERRORS6:
        six: MatchFields = {**come, "eth_type": oxm.ETH_IPV6, "ip_proto": oxm.PROTO_ICMP6}
        yield _of_port(*where, {**six, "icmpv6_type": kind}, commit)


def to_other_hosts(port: HostPort, zone: int, *, unchanged_nat: bool) -> Iterator[Flow]:
    """Yield the flows that give this host's address to what it sends to pods of other hosts.

    They are below those of this host's pods. What has passed them is marked as the host's own.
    Without `unchanged_nat`, what has that address already is tracked as it is (`ofnet.datapath`).
    """
    for source in port.tunnel_sources:
        family: MatchFields = {
            "in_port": port.ofport,
            "eth_type": oxm.ETH_IPV4 if source.version == 4 else oxm.ETH_IPV6,
        }
        where = TableId.INGRESS_GROUP, Priority.HOST_ELSEWHERE
        known: MatchFields = {**family, "metadata": _FOREIGN | JUDGED.put(1), "ct_state": _TRACKED}
        yield _of_port(*where, known, Instructions((_OF_HOST, _AGAIN)))
        enter = Conntrack(TableId.INGRESS_GROUP, zone, commit=True, nat=Nat("src", source))
        new: MatchFields = {**family, "metadata": _FOREIGN | JUDGED.put(0), "ct_state": _TRACKED}
        own: MatchFields = {**family, "metadata": FROM_HOST.put(1), "ct_state": _UNTRACKED}
        for sent in (new, own):
            yield _of_port(*where, sent, Instructions((_OF_HOST, enter)))
        if not unchanged_nat:
            already: MatchFields = {**own, **stages.from_address(source)}
            enter = Conntrack(TableId.INGRESS_GROUP, zone, commit=True)
            above = TableId.INGRESS_GROUP, Priority.HOST_UNCHANGED
            yield _of_port(*above, already, Instructions((_OF_HOST, enter)))


def to_pod(mode: Mode, endpoint: LocalEndpoint, network: Network, port: HostPort) -> Iterator[Flow]:
    """Yield the flows by which what the host forwards to a pod meets the policies."""
    marks = VRF.put(vrf_in(mode, network.vrf)) | FORWARDED.put(1)
    to_mac = (SetField("eth_src", stages.ROUTER_MAC), SetField("eth_dst", endpoint.mac))
    tagging: tuple[Action, ...] = tag(network.vlan) if mode is Mode.VXLAN else ()
    judge = Instructions((*to_mac, *tagging), marks, TableId.DST_GRP)
    for address in sorted(endpoint.routed, key=str):
        to: MatchFields = {"in_port": port.ofport, "metadata": _FOREIGN, "ct_state": _TRACKED}
        to |= stages.to_address(address)
        yield Flow(ObjectKind.LOCAL, TableId.INGRESS_GROUP, Priority.HOST_PATH, Match(**to), judge)
    if mode is Mode.VLAN and endpoint.routed:
        # the host's port has a VLAN of its own, from which NORMAL would reach no pod
        beyond = Match(metadata=FORWARDED.put(1) | RX_VTEP.put(0), eth_dst=endpoint.mac)
        out = Instructions((Output(endpoint.ofport),))
        yield Flow(ObjectKind.LOCAL, TableId.MAC_DEST, Priority.ABOVE_MATCH, beyond, out)


def by_tunnel(zone: int) -> Iterator[Flow]:
    """Yield what follows from the look-up of what other hosts send, whichever host it is."""
    arrived = RX_VTEP.put(1)
    known: MatchFields = {"ct_state": _KNOWN, "ct_zone": zone, "metadata": arrived | JUDGED.put(0)}
    judged = Instructions((Load(JUDGED, 1), _AGAIN))
    yield _of_port(TableId.INGRESS_GROUP, Priority.EXEMPT, known, judged)
    related: MatchFields = {"ct_state": _RELATED, "ct_zone": zone, "metadata": arrived}
    marks = FORWARDED.put(1) | JUDGED.put(1)
    passed = Instructions(metadata=marks, goto=TableId.SRV_PROXY_SNAT)
    yield _of_port(TableId.INGRESS_GROUP, Priority.EXEMPT, related, passed)


def of_sender(
    ofport: int, sender: IPv4Address | IPv6Address, zone: int
) -> Iterator[tuple[Match, Instructions]]:
    """Yield the look-up of what another host sends by its tunnel, and the way to the policies."""
    sent: MatchFields = {"in_port": ofport, "metadata": RX_VTEP.put(1)}
    sent = {**sent, **stages.from_address(sender)}
    look_up = Instructions((Conntrack(TableId.INGRESS_GROUP, zone),))
    judge = Instructions(metadata=FORWARDED.put(1), goto=TableId.DST_GRP)
    new: MatchFields = {**sent, "ct_state": _UNTRACKED}
    known: MatchFields = {**sent, "ct_state": _TRACKED, "ct_zone": zone}
    yield Match(**new), look_up
    yield Match(**known), judge


def entered(mode: Mode, zone: int, way: int) -> Iterator[Flow]:
    """Yield the flows that enter what the policies passed; `way` is 1 for what tunnels bring."""
    onward = TableId.IP if mode in _ROUTED else TableId.MAC_DEST
    enter = Instructions((ConntrackCommit(zone),), goto=onward)
    for eth_type in _FAMILIES:
        passed: MatchFields = {"metadata": FORWARDED.put(1) | RX_VTEP.put(way)}
        passed["eth_type"] = eth_type
        yield _of_port(TableId.SRV_PROXY_SNAT, Priority.FORWARDED, passed, enter)


def judged() -> Iterator[Flow]:
    """Yield the way through the tables of Kubernetes' policies: their sender is no pod here."""
    forwarded = Match(metadata=FORWARDED.put(1))
    back = Instructions((Lookup(TableId.SRV_PROXY_SNAT),))
    where = ObjectKind.PIPELINE, TableId.KUBE_POLICY, Priority.ABOVE_MATCH
    yield Flow(*where, forwarded, goto(TableId.KUBE_INGRESS_ADMIN))
    where = ObjectKind.PIPELINE, TableId.KUBE_ALLOWED, Priority.ABOVE_MATCH
    yield Flow(*where, forwarded, back)


def _of_port(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.HOST_PORT, table, priority, Match(**fields), instructions)


FEATURE: Final[Feature] = {ObjectKind.PIPELINE: lambda *_: judged()}
