"""Rules of policies as flows of table 5, the same in all four pipelines.

A rule without addresses applies to IPv4 and IPv6; ICMP then means ICMPv6 in the latter. (The
original's rules apply to IPv4 alone, and all IPv6 passes.) Rules do not apply to neighbour
discovery, as they do not apply to ARP.

Groups with the same policies share the flows of their rules
(`ofnet.pipelines.features.policy_class`).

A rule with `log` reports packets to the agent (`ofnet.logged_rules`): all that it denies, and of
what it allows, by table 18, the first packets of TCP connections and what is not TCP.

A rule with `audit` decides nothing: the packet is looked up again among the rules without it.
"""

# Priorities in table 5. A rule's is 10 plus its own (1..100), so the greatest of a policy's rules
# wins, and every rule is above the table's miss, which passes: without a matching rule everything
# is allowed. Neighbour discovery is above all rules (200): a policy that denies everything must not
# cut pods off from learning MACs, which would break the traffic that other rules allow.
#
# A packet is reported once, where it is decided first: a host allows what its own pods send, and
# does not report what arrives, which the sender's host has reported (ADR 6). What is denied goes no
# further. The switch reports within a meter for each rule, and asks the agent nothing: a flood
# through a rule with `log` costs the data path a meter, and the agent what the meter lets through.
#
# In table 18 each rule has its own match again, at up to four priorities: first packets of TCP,
# other TCP, what else pods of this host send, and the rest. They are above those of all lesser
# rules, so that a packet meets those of the rule that table 5 chose.
#
# A rule with `audit` has its own priority and match, and register 4 at 0: it is met by what it
# would decide, and by nothing else. It marks the packet in the register and has it looked up again,
# by table 18 if it reports, and the second look-up meets no such rule. So the others decide as if
# there were none: a rule that denies in vain opens nothing that one below it closes, and one that
# allows lets nothing pass. What another rule decides first is not reported. What passes meets the
# rule on both hosts: the agent leaves out what is another host's (`ofnet.agent`).

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP, Action, Instructions, Lookup, Report, SetField, goto
from ofnet.openflow.fields import DESTINATION_GROUP, RX_VTEP, SOURCE_GROUP, Bits, Flags
from ofnet.openflow.match import Match, MatchFields
from ofnet.openflow.meters import Meter
from ofnet.pipelines.features.feature import Feature
from ofnet.tables import Priority, TableId
from ofnet.world import Rule, World

_PASS: Final = goto(TableId.SRV_PROXY_SNAT)
_ON: Final = Lookup(TableId.SRV_PROXY_SNAT)
_NEW_CONNECTION: Final = Flags(value=0x02, mask=0x12)
_ANY: Final = Bits(0, 0)
_LEVELS: Final = 4
"""The priorities that a rule has in table 18."""

_TOLD: Final = 1
"""In register 4: the packet is on its way by table 18 to be reported for a rule with `audit`."""

_TO_REPORTS: Final = Instructions((SetField("reg4", _TOLD),), goto=TableId.POLICY_LOG)
_AGAIN: Final = SetField("reg4", 2), Lookup(TableId.POLICY)
"""Nothing with `audit` matches 2."""


def neighbour_discovery() -> Iterator[Flow]:
    """Yield the flows that pass IPv6 neighbour discovery, whatever rules and policies are.

    Policies of Kubernetes would drop it: to connection tracking it is invalid.
    """
    for kind in (oxm.ND_SOLICIT, oxm.ND_ADVERT):
        match = Match(eth_type=oxm.ETH_IPV6, ip_proto=oxm.PROTO_ICMP6, icmpv6_type=kind)
        yield Flow(ObjectKind.PIPELINE, TableId.POLICY, Priority.NEIGHBOURS, match, _PASS)
        where = TableId.SRV_PROXY_SNAT, Priority.KUBE_NEIGHBOURS
        yield Flow(ObjectKind.PIPELINE, *where, match, goto(TableId.MAC_DEST))


def flows(rule: Rule, _world: World) -> Iterator[Flow]:
    """Yield the flow of a rule for each address family it applies to."""
    families = {type(one) for one in (rule.source, rule.destination)}
    if IPv6Network not in families:
        yield from _of_family(rule, oxm.ETH_IPV4)
    if IPv4Network not in families:
        yield from _of_family(rule, oxm.ETH_IPV6)


def _of_family(rule: Rule, eth_type: int) -> Iterator[Flow]:
    fields: MatchFields = {**_groups(rule), **_ends(rule, eth_type), **_transport(rule, eth_type)}
    priority = Priority.PORT + rule.priority
    if rule.audit:
        yield from _under_audit(rule, fields, priority)
        return
    act = _PASS if rule.allow else DROP
    if rule.log and rule.allow:
        act = goto(TableId.POLICY_LOG)
        sent_here: MatchFields = {
            **fields,
            "metadata": fields.get("metadata", _ANY) | RX_VTEP.put(0),
        }
        yield from _reports(rule, fields, sent_here, (_ON,))
    elif rule.log:
        act = Instructions((_report(rule),))
    yield Flow(ObjectKind.RULE, TableId.POLICY, priority, Match(**fields), act)


def _under_audit(rule: Rule, fields: MatchFields, priority: int) -> Iterator[Flow]:
    """Yield the flows of a rule that decides nothing; one that denies, with `log`, reports."""
    told = rule.log and not rule.allow
    act = _TO_REPORTS if told else Instructions(_AGAIN)
    unmarked: MatchFields = {**fields, "reg4": 0}
    yield Flow(ObjectKind.RULE, TableId.POLICY, priority, Match(**unmarked), act)
    if told:
        marked: MatchFields = {**fields, "reg4": _TOLD}
        yield from _reports(rule, marked, marked, _AGAIN)


def _reports(
    rule: Rule, fields: MatchFields, reported: MatchFields, then: tuple[Action, ...]
) -> Iterator[Flow]:
    """Yield the flows of table 18 for a rule: what is `reported` of all that it matches.

    Of that, the first packets of TCP and what is not TCP; the packets go on as `then` says.
    """
    report = Instructions((_report(rule), *then))
    passed = Instructions(then)
    tcp: MatchFields = {"ip_proto": oxm.PROTO_TCP}
    if rule.protocol in {0, oxm.PROTO_TCP}:
        first: MatchFields = {**reported, **tcp, "tcp_flags": _NEW_CONNECTION}
        yield _at_level(rule, 3, first, report)
    if not rule.protocol:
        yield _at_level(rule, 2, {**fields, **tcp}, passed)
    if rule.protocol != oxm.PROTO_TCP:
        yield _at_level(rule, 1, reported, report)
    yield _at_level(rule, 0, fields, passed)


def _at_level(rule: Rule, level: int, fields: MatchFields, act: Instructions) -> Flow:
    priority = Priority.PORT + _LEVELS * rule.priority + level
    return Flow(ObjectKind.RULE, TableId.POLICY_LOG, priority, Match(**fields), act)


def _report(rule: Rule) -> Report:
    return Report(Meter.of_reports(rule.id))


def _groups(rule: Rule) -> MatchFields:
    between = _ANY
    if rule.src_group:
        between |= SOURCE_GROUP.put(rule.src_group)
    if rule.dst_group:
        between |= DESTINATION_GROUP.put(rule.dst_group)
    fields: MatchFields = {"metadata": between} if between.mask else {}
    if rule.src_class:
        fields["reg2"] = rule.src_class
    if rule.dst_class:
        fields["reg3"] = rule.dst_class
    return fields


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


FEATURE: Final[Feature] = {ObjectKind.RULE: flows}
