"""Table 2: finds the source group of packets from other hosts, so that policy applies here too.

A packet from a known remote endpoint gets its source group and goes through tables 4 and 5. Of
unknown sources only those outside the cluster may send, by an uplink
(`ofnet.pipelines.packet_path.arrival_guard`); their packets skip both tables. The original applies
policy at the sender's host alone.
"""

# Invariant: no packet between two pods passes unless the current rules allow it, also while hosts
# know different states (ADR 6). The sender's host may not have the record of a pod that is new
# here, or of one that took over another pod's address; it then sends what the rules deny. The
# receiving host knows its own pods first, so it applies the rules again. Both hosts apply the same
# rules to the same packet and the same groups: what may leave may also enter.
#
# An unknown source is outside the cluster, where policy does not apply. With the source guard off
# it may also be a pod that this host has no record of yet. Then that pod is younger than all pods
# here, and its own host has applied the rules, since it waits for their records before the pod
# starts (`netplugin.pods.add`).

from collections.abc import Callable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import Action, Instructions, goto
from ofnet.openflow.fields import FROM_HOST, RX_VTEP, SOURCE_GROUP, VRF, Bits
from ofnet.openflow.match import Match
from ofnet.pipelines.packet_path import arrival_guard, stages
from ofnet.tables import Priority, TableId
from ofnet.world import RemoteEndpoint, Uplink, Vtep


def unknown_sources() -> Flow:
    """Return the flow that lets packets from unknown sources skip policy."""
    onward = goto(TableId.SRV_PROXY_SNAT)
    return Flow(
        ObjectKind.PIPELINE,
        TableId.INGRESS_GROUP,
        Priority.PORT,
        Match(metadata=RX_VTEP.put(1)),
        onward,
    )


def ingress_instructions(vrf: int, *, tagging: tuple[Action, ...] = ()) -> Instructions:
    """Return the instructions of table 1 for a packet from another host in a VRF."""
    return Instructions(tagging, _ingress_metadata(vrf), TableId.INGRESS_GROUP)


def vlan_ingress(uplink: Uplink, vlan: int, vrf: int) -> Flow:
    """Return the flow of table 1 for packets from an uplink on a network's VLAN."""
    match = Match(in_port=uplink.ofport, vlan_vid=vlan)
    return Flow(
        ObjectKind.NETWORK, TableId.VLAN, Priority.ABOVE_MATCH, match, ingress_instructions(vrf)
    )


def source_groups(
    endpoint: RemoteEndpoint, vrf: int, *, vtep: Vtep | None = None
) -> Iterator[Flow]:
    """Yield the flows that apply policy to packets from a remote endpoint, by its tunnel or any."""
    in_port = None if vtep is None else vtep.ofport
    to_policy = _to_policy(endpoint.group_id, of_host=endpoint.of_host)
    for address in stages.addresses(endpoint):
        sent = _arrivals(vrf, in_port, address.version)(address)
        yield Flow(ObjectKind.REMOTE, TableId.INGRESS_GROUP, Priority.MATCH, sent, to_policy)


@lru_cache(maxsize=4096)
def _arrivals(
    vrf: int, in_port: int | None, version: int
) -> Callable[[IPv4Address | IPv6Address], Match]:
    return stages.by_address("src", version, **arrival_guard.origin(vrf, in_port))


@lru_cache(maxsize=256)
def _ingress_metadata(vrf: int) -> Bits:
    return VRF.put(vrf) | RX_VTEP.put(1)


@lru_cache(maxsize=4096)
def _to_policy(group_id: int, *, of_host: bool) -> Instructions:
    marks = SOURCE_GROUP.put(group_id) if group_id else None
    if of_host:
        marks = FROM_HOST.put(1) if marks is None else marks | FROM_HOST.put(1)
    return Instructions(metadata=marks, goto=TableId.DST_GRP)
