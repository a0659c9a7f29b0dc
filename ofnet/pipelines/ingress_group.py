"""What other hosts send is judged here as well: table 2 finds its sender's group.

The sender's host judges by what it knows, and it may not have heard yet of a pod that is new here,
or that has an address another one had. So what arrives in the name of a pod known to be elsewhere
goes through tables 4 and 5 once more, with the groups of both ends: the same rules on the same
packet, so that what may leave may enter. The original judges at the sender's host alone.

What arrives in a name unknown here goes on as it is. It is of people outside the cluster, or of a
pod that is younger than all those here: then its own host knows these, and has judged
(`netplugin.pods.add`).
"""

from collections.abc import Iterator
from functools import lru_cache

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow.actions import Action, Instructions, goto
from ofnet.openflow.fields import RX_VTEP, SOURCE_GROUP, VRF, Bits
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines import stages
from ofnet.tables import Priority, TableId
from ofnet.world import RemoteEndpoint, Uplink


def unknown_sources() -> Flow:
    """Return the flow that leaves alone what arrives in nobody's name that is known here."""
    onward = goto(TableId.SRV_PROXY_SNAT)
    return Flow(
        ObjectKind.PIPELINE,
        TableId.INGRESS_GROUP,
        Priority.PORT,
        Match(metadata=RX_VTEP.put(1)),
        onward,
    )


def ingress_instructions(vrf: int, *, tagging: tuple[Action, ...] = ()) -> Instructions:
    """Return what table 1 does with a packet that arrives in a VRF."""
    return Instructions(tagging, _arrived(vrf), TableId.INGRESS_GROUP)


def vlan_ingress(uplink: Uplink, vlan: int, vrf: int) -> Flow:
    """Return the flow for what arrives on a network's VLAN."""
    match = Match(in_port=uplink.ofport, vlan_vid=vlan)
    return Flow(
        ObjectKind.NETWORK, TableId.VLAN, Priority.ABOVE_MATCH, match, ingress_instructions(vrf)
    )


def source_groups(endpoint: RemoteEndpoint, vrf: int) -> Iterator[Flow]:
    """Yield the flows that have judged what arrives from an endpoint of another host."""
    for address in stages.addresses(endpoint):
        fields: MatchFields = {"metadata": _arrived(vrf), **stages.from_address(address)}
        judged = _judged(endpoint.group_id)
        yield Flow(
            ObjectKind.REMOTE, TableId.INGRESS_GROUP, Priority.MATCH, Match(**fields), judged
        )


@lru_cache(maxsize=256)
def _arrived(vrf: int) -> Bits:
    return VRF.put(vrf) | RX_VTEP.put(1)


@lru_cache(maxsize=4096)
def _judged(group_id: int) -> Instructions:
    group = SOURCE_GROUP.put(group_id) if group_id else None
    return Instructions(metadata=group, goto=TableId.DST_GRP)
