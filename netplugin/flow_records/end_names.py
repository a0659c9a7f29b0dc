"""Gives names to the ends of flows, and reasons to drops (pure).

In come records of endpoints and the flow that dropped a packet; out come names as records have
them. The World's own words for a flow are `netplugin.trace.flow_reasons`'.
"""

from typing import Final

from core.ids import POD_NAME, POD_NAMESPACE, network_name
from netplugin.diagnostics.policy_log import rule_names
from netplugin.trace import flow_reasons
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow
from netplugin.world.kubernetes.kube_policies import KubePolicies
from ofnet.changes import ObjectId, ObjectKind
from ofnet.drops import DroppedPacket
from ofnet.tables import TableId
from ofnet.world import World
from state.flow_records import EndNames

SPOOFED: Final = "spoofed"
_BY_OWNER: Final = {
    ObjectKind.RULE: "policy",
    ObjectKind.POLICY_ENTRY: "kubernetes-policy",
    ObjectKind.BARRED: "barred",
    ObjectKind.MANAGEMENT: "guard",
    ObjectKind.MANAGEMENT_PORT: "guard",
}
_BY_TABLE: Final = {
    TableId.INPUT: SPOOFED,
    TableId.VLAN: "unknown-port",
    TableId.INGRESS_GROUP: "unknown-source",
    TableId.SRV_PROXY_DNAT: "no-such-port",
    TableId.SERVICES: "invalid",
    TableId.KUBE_POLICY: "invalid",
    TableId.IP: "no-route",
    TableId.MAC_DEST: "no-route",
    TableId.HOST_SNAT: "no-route",
}
REFUSED: Final = "no-provider"


def of_endpoint(row: EndpointRow) -> EndNames:
    """Return the names of an endpoint."""
    record, tenant = row
    network = network_name(record.network, tenant)
    labels = record.labels or {}
    return EndNames(
        tenant=tenant,
        network=network,
        group=record.group_key.partition(":")[0],
        namespace=labels.get(POD_NAMESPACE, ""),
        pod=labels.get(POD_NAME, ""),
        endpoint=record.key,
        container=record.common_name or record.container_id or record.endpoint_id,
        labels=labels,
    )


def reason(owner: ObjectId, table: TableId, *, refused: bool) -> str:
    """Return why packets are dropped, in a word: by the flow's owner and its table.

    `refused` says that the agent gets them for something else too.
    """
    if owner.kind is ObjectKind.SERVICE and refused:
        return REFUSED
    return _BY_OWNER.get(owner.kind) or _BY_TABLE.get(table, "other")


def policy_and_rule(packet: DroppedPacket, kube: KubePolicies, world: World) -> tuple[str, str]:
    """Return the policy that dropped a packet and its rule, "" for what has none.

    A policy of Kubernetes is `<kind> <namespace>/<name>`; several that share a match are joined by
    commas.
    """
    kind, name = packet.owner
    if kind is ObjectKind.RULE:
        named = rule_names(name)
        return named["policy"], named["rule"]
    entry = world.policy_entries.get(name) if kind is ObjectKind.POLICY_ENTRY else None
    if entry is None:
        return "", ""
    rule, policies = kube.origin(entry.match)
    return ", ".join(policies), rule


def because(packet: DroppedPacket, kube: KubePolicies, world: World) -> str:
    """Return for what the flow is there that dropped a packet, in words."""
    return flow_reasons.of(packet.owner, kube, world)
