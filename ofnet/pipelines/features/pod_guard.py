"""The pod guard: what a pod sends to a management port of the cluster is dropped on its host.

In come the addresses of hosts, masters and store (`World.management`) and the ports that the
cluster is managed by (`World.management_ports`). Table 4 marks packets to such an address, table 5
drops the marked ones that are for such a port, above all rules. All four pipelines have it; so does
a pod's interface to its host (`ofnet.pipelines.features.host_access`). The original has nothing
like it.
"""

# Invariant: every packet from a pod, whichever way it leaves, passes tables 4 and 5. A pipeline
# that gave pods a way around these tables would open every port of the management to them.
#
# One flow for each address and four for each port: a thousand hosts cost a thousand flows or two,
# not a thousand times the number of ports. The price is that a port of one address is closed at
# all of them.
#
# Packets that come by an uplink from outside the cluster skip both tables (ADR 6), as do those of
# unknown sources where the source guard is off. Their own host has dropped what was for a
# management port. The host's own port `contivh0` does not lead
# here, and its interfaces on infra networks are told by FROM_HOST: hosts may talk to each other.

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Instructions
from ofnet.openflow.fields import FROM_HOST, MANAGEMENT
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features.feature import Feature
from ofnet.tables import Mode, Priority, TableId
from ofnet.world import ManagementPort, World

_MARKED: Final = Instructions(metadata=MANAGEMENT.put(1), goto=TableId.POLICY)
_FROM_PODS: Final = MANAGEMENT.put(1) | FROM_HOST.put(0)


def within_vrfs(address: IPv4Network | IPv6Network, _world: World) -> Iterator[Flow]:
    """Yield the mark of an address where tenants have address spaces of their own.

    Below the flows of endpoints: inside its VRF a pod may have an address of some host, and packets
    to it never reach that host.
    """
    yield _mark(address, Priority.PORT)


def everywhere(address: IPv4Network | IPv6Network, _world: World) -> Iterator[Flow]:
    """Yield the mark of an address where all tenants share the physical network's addresses."""
    yield _mark(address, Priority.ABOVE_MATCH)


def port(port: ManagementPort, _world: World) -> Iterator[Flow]:
    """Yield the flows that drop what pods send to a port of the marked addresses."""
    for eth_type in (oxm.ETH_IPV4, oxm.ETH_IPV6):
        fields: MatchFields = {"metadata": _FROM_PODS, "eth_type": eth_type}
        fields["ip_proto"] = port.protocol
        if port.protocol == oxm.PROTO_TCP:
            fields["tcp_dst"] = port.port
        else:
            fields["udp_dst"] = port.port
        yield Flow(
            ObjectKind.MANAGEMENT_PORT,
            TableId.POLICY,
            Priority.MANAGEMENT,
            Match(**fields),
            DROP,
        )


def _mark(address: IPv4Network | IPv6Network, priority: Priority) -> Flow:
    fields: MatchFields
    if isinstance(address, IPv4Network):
        fields = {"eth_type": oxm.ETH_IPV4, "ipv4_dst": oxm.shortest(address)}
    else:
        fields = {"eth_type": oxm.ETH_IPV6, "ipv6_dst": oxm.shortest(address)}
    return Flow(ObjectKind.MANAGEMENT, TableId.DST_GRP, priority, Match(**fields), _MARKED)


def feature(mode: Mode) -> Feature:
    """Return the flows that keep pods off the cluster's management."""
    shared = mode in {Mode.VLAN, Mode.VLROUTER}
    return {
        ObjectKind.MANAGEMENT: everywhere if shared else within_vrfs,
        ObjectKind.MANAGEMENT_PORT: port,
    }
