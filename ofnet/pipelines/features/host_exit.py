"""The way out of pods of routed vxlan networks: to their host, under private addresses (`vrouter`).

What no pod has as its address leaves by the host's port, with the pod's private address as source
(table 8). Answers come back through table 2. The host knows pods by these addresses, and gives its
own to what it sends on (`netplugin.bridges.host.host_access`). Both families have it: IPv6 where
some network has that, by addresses of `ofnet.world.PRIVATE6`.
"""

# Tenants' addresses overlap, private ones are unique on the host. So the NAT of tables 8 and 2 is
# one to one and keeps no state, and nothing here has a VRF beside its address.
#
# But for fragments: where an address is set, the userspace datapath takes two bytes of a later
# fragment for the checksum of UDP or TCP, and changes them (Open vSwitch 3.1). Connection tracking
# translates the whole packet, so fragments go through it, to the same addresses. A fragment that it
# does not translate, because it is too short or its packet incomplete, is dropped.
#
# Errors of ICMP quote a packet, and no action sets an address in there: the agent does
# (`ofnet.packets.packetin`).
#
# Invariant: private addresses are nobody's to reach, or a pod would reach others past the walls
# between tenants. Of IPv6 that holds for all addresses that hosts take for themselves. What is not
# routed, link-local addresses and multicasts, never leaves by the port. No redirect of the host
# reaches a pod, whose router is the switch.

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    TO_CONTROLLER,
    Conntrack,
    Instructions,
    Load,
    Nat,
    Output,
    SetField,
)
from ofnet.openflow.fields import FRAGMENT_ANY, VRF
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features import service_nat
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Priority, TableId, fragment_zone_of
from ofnet.world import HOSTS_OWN6, PRIVATE6, HostPort, LocalEndpoint

UNROUTABLE6: Final = (IPv6Network("fe80::/10"), IPv6Network("ff00::/8"))
"""Link-local addresses and multicasts."""
_REDIRECT: Final = 137


def of_host_port(port: HostPort) -> Iterator[Flow]:
    """Yield the flows of the host's port that are the same for all pods."""
    # a packet of the host to an unknown address must not come back to it through table 8
    yield _of_port(TableId.IP, Priority.PORT, {"in_port": port.ofport}, DROP)
    to_private = stages.to_address(port.subnet)
    yield _of_port(TableId.HOST_SNAT, Priority.ABOVE_MATCH, to_private, DROP)
    back: MatchFields = {"in_port": port.ofport, **to_private, "ip_proto": oxm.PROTO_ICMP}
    where = TableId.INGRESS_GROUP, Priority.EXEMPT
    for kind in service_nat.ERRORS4:
        yield _of_port(*where, {**back, "icmp_type": kind}, TO_CONTROLLER)
    if not port.has_ipv6:
        return
    for block in (HOSTS_OWN6, *UNROUTABLE6):
        yield _of_port(TableId.HOST_SNAT, Priority.ABOVE_MATCH, stages.to_address(block), DROP)
    forged: MatchFields = {"in_port": port.ofport, **stages.from_address(PRIVATE6)}
    yield _of_port(TableId.INGRESS_GROUP, Priority.HOST_FORGED, forged, DROP)
    back = {"in_port": port.ofport, **stages.to_address(PRIVATE6), "ip_proto": oxm.PROTO_ICMP6}
    for kind in service_nat.ERRORS6:
        yield _of_port(*where, {**back, "icmpv6_type": kind}, TO_CONTROLLER)
    yield _of_port(*where, {**back, "icmpv6_type": _REDIRECT}, DROP)


def local(endpoint: LocalEndpoint, vrf: int, port: HostPort) -> Iterator[Flow]:
    """Yield the flows between a pod and its host; `vrf` is the pod's."""
    if endpoint.ip is not None and endpoint.nat_ip is not None:
        yield from _translation(_Ends("ipv4", endpoint.ip, endpoint.nat_ip), endpoint, vrf, port)
    if port.has_ipv6 and endpoint.ip6 is not None and endpoint.nat_ip6 is not None:
        yield from _translation(_Ends("ipv6", endpoint.ip6, endpoint.nat_ip6), endpoint, vrf, port)


@dataclass(frozen=True, slots=True)
class _Ends:
    """An address of a pod and its private one; `family` begins the names of their fields."""

    family: str
    own: IPv4Address | IPv6Address
    private: IPv4Address | IPv6Address


def _translation(ends: _Ends, endpoint: LocalEndpoint, vrf: int, port: HostPort) -> Iterator[Flow]:
    eth_type = stages.to_address(ends.own)["eth_type"]
    sent: MatchFields = {"in_port": endpoint.ofport, "eth_type": eth_type}
    leave = Instructions(
        actions=(
            SetField("eth_dst", port.mac),
            SetField(f"{ends.family}_src", ends.private),
            Output(port.ofport),
        )
    )
    yield _of_pod(TableId.HOST_SNAT, Priority.MATCH, sent, leave)
    arrived: MatchFields = {"in_port": port.ofport, **stages.to_address(ends.private)}
    enter = Instructions(
        actions=(SetField("eth_dst", endpoint.mac), SetField(f"{ends.family}_dst", ends.own)),
        metadata=VRF.put(vrf),
        goto=TableId.SRV_PROXY_SNAT,
    )
    yield _of_pod(TableId.INGRESS_GROUP, Priority.MATCH, arrived, enter)
    zone = fragment_zone_of(vrf)
    sent = {"in_port": endpoint.ofport, "ip_frag": FRAGMENT_ANY, **stages.from_address(ends.own)}
    out = Conntrack(TableId.HOST_SNAT, zone, commit=True, nat=Nat("src", ends.private))
    yield _of_pod(TableId.HOST_SNAT, Priority.EXEMPT, sent, Instructions((out,)))
    yield _of_pod(TableId.HOST_SNAT, Priority.UNTRANSLATED, {**sent, "ct_zone": zone}, DROP)
    into = Conntrack(TableId.SRV_PROXY_SNAT, zone, commit=True, nat=Nat("dst", ends.own))
    to_pod = Instructions((SetField("eth_dst", endpoint.mac), Load(VRF, vrf), into))
    arrived = {**arrived, "ip_frag": FRAGMENT_ANY}
    yield _of_pod(TableId.INGRESS_GROUP, Priority.ABOVE_MATCH, arrived, to_pod)


def _of_port(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.HOST_PORT, table, priority, Match(**fields), instructions)


def _of_pod(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.LOCAL, table, priority, Match(**fields), instructions)
