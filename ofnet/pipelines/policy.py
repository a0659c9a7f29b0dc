"""Rules of policies as flows of table 5, the same in all four pipelines.

A rule without addresses applies to IPv4 and IPv6; ICMP then means ICMPv6 in the latter. (The
original's rules apply to IPv4 alone, and all IPv6 passes.) Rules do not apply to neighbour
discovery, as they do not apply to ARP.
"""

# Priorities in table 5. A rule's is 10 plus its own (1..100), so the greatest of a policy's rules
# wins, and every rule is above the table's miss, which passes: without a matching rule everything
# is allowed. Neighbour discovery is above all rules (200): a policy that denies everything must not
# cut pods off from learning MACs, which would break the traffic that other rules allow.

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, goto
from ofnet.openflow.fields import DESTINATION_GROUP, SOURCE_GROUP
from ofnet.openflow.match import Match, MatchFields
from ofnet.tables import Priority, TableId
from ofnet.world import Rule, World

_PASS: Final = goto(TableId.SRV_PROXY_SNAT)


def neighbour_discovery() -> Iterator[Flow]:
    """Yield the flows that pass IPv6 neighbour discovery, whatever the rules are."""
    for kind in (oxm.ND_SOLICIT, oxm.ND_ADVERT):
        match = Match(eth_type=oxm.ETH_IPV6, ip_proto=oxm.PROTO_ICMP6, icmpv6_type=kind)
        yield Flow(ObjectKind.PIPELINE, TableId.POLICY, Priority.NEIGHBOURS, match, _PASS)


def flows(rule: Rule, _world: World) -> Iterator[Flow]:
    """Yield the flow of a rule for each address family it applies to."""
    families = {type(one) for one in (rule.source, rule.destination)}
    if IPv6Network not in families:
        yield _flow(rule, oxm.ETH_IPV4)
    if IPv4Network not in families:
        yield _flow(rule, oxm.ETH_IPV6)


def _flow(rule: Rule, eth_type: int) -> Flow:
    fields: MatchFields = {**_groups(rule), **_ends(rule, eth_type), **_transport(rule, eth_type)}
    priority = Priority.PORT + rule.priority
    return Flow(
        ObjectKind.RULE, TableId.POLICY, priority, Match(**fields), _PASS if rule.allow else DROP
    )


def _groups(rule: Rule) -> MatchFields:
    if rule.src_group and rule.dst_group:
        between = SOURCE_GROUP.put(rule.src_group) | DESTINATION_GROUP.put(rule.dst_group)
        return {"metadata": between}
    if rule.src_group:
        return {"metadata": SOURCE_GROUP.put(rule.src_group)}
    if rule.dst_group:
        return {"metadata": DESTINATION_GROUP.put(rule.dst_group)}
    return {}


def _ends(rule: Rule, eth_type: int) -> MatchFields:
    fields: MatchFields = {"eth_type": eth_type}
    if isinstance(rule.source, IPv4Network):
        fields["ipv4_src"] = oxm.shortest(rule.source)
    elif rule.source is not None:
        fields["ipv6_src"] = oxm.shortest(rule.source)
    if isinstance(rule.destination, IPv4Network):
        fields["ipv4_dst"] = oxm.shortest(rule.destination)
    elif rule.destination is not None:
        fields["ipv6_dst"] = oxm.shortest(rule.destination)
    return fields


def _transport(rule: Rule, eth_type: int) -> MatchFields:
    if not rule.protocol:
        return {}
    fields: MatchFields = {"ip_proto": rule.protocol}
    if eth_type == oxm.ETH_IPV6 and rule.protocol == oxm.PROTO_ICMP:
        fields["ip_proto"] = oxm.PROTO_ICMP6
    if rule.protocol == oxm.PROTO_TCP:
        if rule.src_port:
            fields["tcp_src"] = rule.src_port
        if rule.dst_port:
            fields["tcp_dst"] = rule.dst_port
        if rule.tcp_flags is not None:
            fields["tcp_flags"] = rule.tcp_flags
    elif rule.protocol == oxm.PROTO_UDP:
        if rule.src_port:
            fields["udp_src"] = rule.src_port
        if rule.dst_port:
            fields["udp_dst"] = rule.dst_port
    return fields
