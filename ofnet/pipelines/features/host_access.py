"""Host access: a pod's second interface (`host1`) to its host, on networks without a gateway.

The interface is a port of the vxlan bridge with the pod's address on the host's private network.
Its flows connect it to the host's port and to nothing else, in both forwarding modes. Networks,
VRFs and policies do not apply, as on the separate bridge that the original once had for it.
"""

# Invariant: packets from this port reach the host or are dropped. Table 0 passes only the pod's own
# MAC and private address, marked TO_HOST. Table 4 looks at the address, table 5 drops what is for a
# management port (`ofnet.pipelines.features.pod_guard`) and sends the rest to table 8, above all
# rules: the mark never leaves these three tables. Other packets take table 0's miss to table 1,
# which has no flow for the port and drops them. In table 8 the private network is out of reach but
# for the host itself, so pods cannot reach each other around the policies.

from collections.abc import Iterator
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Instructions, Output, SetField, goto
from ofnet.openflow.fields import TO_HOST
from ofnet.openflow.match import Match, MatchFields
from ofnet.openflow.meters import Meter
from ofnet.pipelines.features import host_paths
from ofnet.pipelines.features.feature import Feature
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Priority, TableId
from ofnet.world import AccessPort, HostPort, World


def flows(access: AccessPort, world: World) -> Iterator[Flow]:
    """Yield the flows between a pod's `host1` and the host's port; none while that is missing."""
    port = world.host_port
    if port is None:
        return
    yield from _from_pod(access, port)
    yield from _to_pod(access, port)


def _from_pod(access: AccessPort, port: HostPort) -> Iterator[Flow]:
    own: MatchFields = {"in_port": access.ofport, "eth_src": access.mac}
    sent: MatchFields = {**own, "eth_type": oxm.ETH_IPV4, "ipv4_src": access.ip}
    dns: MatchFields = {**sent, "ip_proto": oxm.PROTO_UDP, "udp_dst": stages.DNS_PORT}
    named: MatchFields = {"eth_type": oxm.ETH_ARP, "arp_sha": access.mac, "arp_spa": access.ip}
    to_host = Instructions((Output(port.ofport),))
    meter = Meter.of_port(access.ofport, access.rate, access.burst)
    on = Instructions(metadata=TO_HOST.put(1), goto=TableId.DST_GRP, meter=meter)
    yield _flow(TableId.INPUT, Priority.GUARD_PASS, sent, on)
    yield _flow(TableId.INPUT, Priority.EXEMPT, dns, on)
    yield _flow(TableId.INPUT, Priority.OWN_ARP, {**own, **named}, to_host)
    yield _flow(
        TableId.POLICY, Priority.TO_HOST, {"metadata": TO_HOST.put(1)}, goto(TableId.HOST_SNAT)
    )
    ip: MatchFields = {"in_port": access.ofport, "eth_type": oxm.ETH_IPV4}
    private: MatchFields = {"eth_type": oxm.ETH_IPV4, "ipv4_dst": port.subnet}
    marks = (SetField("ip_dscp", access.dscp),) if access.dscp else ()
    marked = Instructions((*marks, Output(port.ofport)))
    yield _flow(TableId.HOST_SNAT, Priority.MATCH, ip, marked)
    yield _flow(TableId.HOST_SNAT, Priority.ABOVE_MATCH, private, DROP)
    yield _flow(TableId.HOST_SNAT, Priority.EXEMPT, {**ip, "ipv4_dst": port.address}, marked)


def _to_pod(access: AccessPort, port: HostPort) -> Iterator[Flow]:
    from_host: MatchFields = {"in_port": port.ofport}
    request: MatchFields = {**from_host, "eth_type": oxm.ETH_ARP, "arp_tpa": access.ip}
    sent: MatchFields = {**from_host, "eth_type": oxm.ETH_IPV4, "ipv4_dst": access.ip}
    out = Output(access.ofport)
    yield from host_paths.entrance(ObjectKind.ACCESS, port)
    yield _flow(TableId.INPUT, Priority.OWN_ARP, request, Instructions((out,)))
    # above the flow that translates the address to the pod's other interface (`vrouter`)
    to_pod = Instructions((SetField("eth_dst", access.mac), out))
    yield _flow(TableId.INGRESS_GROUP, Priority.ABOVE_MATCH, sent, to_pod)


def _flow(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.ACCESS, table, priority, Match(**fields), instructions)


FEATURE: Final[Feature] = {ObjectKind.ACCESS: flows}
