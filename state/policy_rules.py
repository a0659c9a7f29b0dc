"""Expands a user's policy rule into ofnet rules, which a switch can match.

Takes groups, networks and rules. For each group of the policy, a rule becomes an ofnet rule for its
packets and, if it names a port, one for the replies. Pure, and not stored (ADR 18): netmaster shows
the result, agents turn it into flows.
"""

# A rule whose remote group or network does not exist expands to nothing. 0 and "" mean "any" in an
# ofnet rule, so an unresolved name must never become one of them: an allow rule for one group would
# allow everybody. It expands once the object exists.
#
# A TCP rule without a port matches only packets that open a connection (`NEW_CONNECTION`). Without
# the flags it would also match replies to connections that were opened from the other side, and a
# deny rule for one direction would break both.
#
# A rule with a port needs another one for the replies, which have that port as their source port.
#
# An address range becomes the smallest set of blocks with a mask, one ofnet rule for each.

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from core.addresses import blocks4, ipv4, ipv4_text, parse_match
from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName, group_key, network_id
from state.creation import is_bounded
from state.records import GroupRecord, NetworkRecord

Direction = Literal["in", "out"]
Action = Literal["allow", "deny"]
Span = tuple[int, int]
"""First and last of a run of IPv4 addresses."""

TCP: Final = 6
UDP: Final = 17
PROTOCOLS: Final[Mapping[str, int]] = {"": 0, "icmp": 1, "igmp": 2, "tcp": TCP, "udp": UDP}
NEW_CONNECTION: Final = "syn,!ack"
"""The TCP flags of a rule without a port: packets that open a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """A policy rule as its user wrote it; 0 and None mean any.

    `group` and `network` belong to the rule's tenant and name the remote end: the source of packets
    (`in`) or their destination (`out`).
    """

    tenant: TenantName
    policy: str
    rule_id: str
    direction: Direction
    action: Action
    priority: int
    protocol: int = 0
    port: int = 0
    group: GroupName | None = None
    network: NetworkName | None = None
    source: Span | None = None
    destination: Span | None = None
    log: bool = False
    audit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OfnetRule:
    """The match and action of a flow of the policy table; 0 and "" mean any.

    Groups are ids, addresses are written `a` or `a/len`, `priority` is 1..100, the highest first.
    Ports apply to TCP and UDP only. `log`: what it decides is recorded; not so for answers.
    `audit`: it decides nothing, and what it would deny is recorded if it has `log`.
    """

    rule_id: str
    priority: int
    src_group: int
    dst_group: int
    src_address: str
    dst_address: str
    protocol: int
    src_port: int = 0
    dst_port: int = 0
    tcp_flags: str = ""
    action: Action
    log: bool = False
    audit: bool = False


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The existing groups and networks, to which the names in rules resolve."""

    groups: Mapping[GroupKey, GroupRecord]
    networks: Mapping[NetworkId, NetworkRecord]


def policy_rule(
    *,
    tenant: str,
    policy: str,
    rule_id: str,
    direction: str,
    action: str,
    priority: int,
    protocol: str,
    port: int,
    group: str,
    network: str,
    source: str,
    destination: str,
    log: bool = False,
    audit: bool = False,
) -> PolicyRule:
    """Return a rule from the fields of its REST object; "" means not given.

    Raises ValueError for a malformed protocol or address.
    """
    return PolicyRule(
        tenant=TenantName(tenant),
        policy=policy,
        rule_id=rule_id,
        direction="in" if direction == "in" else "out",
        action="allow" if action == "allow" else "deny",
        priority=priority,
        protocol=protocol_number(protocol),
        port=port,
        group=GroupName(group) if group else None,
        network=NetworkName(network) if network else None,
        source=parse_match(source) if source else None,
        destination=parse_match(destination) if destination else None,
        log=log,
        audit=audit,
    )


def expand(group: GroupRecord, rule: PolicyRule, scope: RuleScope) -> tuple[OfnetRule, ...]:
    """Return the ofnet rules of a rule for one group of its policy.

    Empty while the remote group or network does not exist.
    """
    ends = _ends(group, rule, scope)
    if ends is None:
        return ()
    prefix = f"{group.tenant}:{group.name}:{rule.tenant}:{rule.policy}"
    prefix = f"{prefix}:{rule.tenant}:{rule.policy}:{rule.rule_id}"
    requests, replies = ("inRx", "inTx") if rule.direction == "in" else ("outTx", "outRx")
    expanded = list(_request_rules(f"{prefix}:{requests}", rule, ends))
    if rule.port and rule.protocol in {TCP, UDP}:
        expanded += _reply_rules(f"{prefix}:{replies}", rule, ends)
    return tuple(expanded)


def expand_all(
    attachments: Iterable[tuple[GroupRecord, Iterable[PolicyRule]]], scope: RuleScope
) -> dict[str, OfnetRule]:
    """Return all ofnet rules by id, given groups with the rules of their policies."""
    return {
        expanded.rule_id: expanded
        for group, rules in attachments
        for rule in rules
        for expanded in expand(group, rule, scope)
    }


def protocol_number(text: str) -> int:
    """Return the number of a protocol's name or digits. Raises ValueError."""
    number = PROTOCOLS[text] if text in PROTOCOLS else int(text)
    if not 0 <= number <= 255:
        raise ValueError(f"there is no protocol {text}")
    return number


@dataclass(frozen=True, slots=True)
class _Ends:
    """Source and destination of packets: group ids and blocks of addresses.

    Only a network has an IPv6 block; the rule's own addresses are IPv4.
    """

    src_group: int
    dst_group: int
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    source6: str = ""
    destination6: str = ""


def _ends(group: GroupRecord, rule: PolicyRule, scope: RuleScope) -> _Ends | None:
    remote, network = 0, None
    if rule.group:
        other = scope.groups.get(group_key(rule.group, rule.tenant))
        if other is None:
            return None
        remote = other.group_id
    if rule.network:
        network = scope.networks.get(network_id(rule.network, rule.tenant))
        if network is None:
            return None
    block6 = _network_block6(network) if network is not None else ""
    if rule.direction == "in":
        sources = _blocks(rule.source) if network is None else _network_blocks(network)
        block6 = "" if rule.destination else block6
        return _Ends(remote, group.group_id, sources, _blocks(rule.destination), source6=block6)
    destinations = _blocks(rule.destination) if network is None else _network_blocks(network)
    return _Ends(group.group_id, remote, _blocks(rule.source), destinations, destination6=block6)


def _request_rules(rule_id: str, rule: PolicyRule, ends: _Ends) -> Iterator[OfnetRule]:
    for part_id, source, destination in _parts(rule_id, ends):
        yield OfnetRule(
            rule_id=part_id,
            priority=rule.priority,
            src_group=ends.src_group,
            dst_group=ends.dst_group,
            src_address=source,
            dst_address=destination,
            protocol=rule.protocol,
            dst_port=rule.port,
            tcp_flags=NEW_CONNECTION if rule.protocol == TCP and not rule.port else "",
            action=rule.action,
            log=rule.log or (rule.audit and rule.action == "deny"),
            audit=rule.audit,
        )


def _reply_rules(rule_id: str, rule: PolicyRule, ends: _Ends) -> Iterator[OfnetRule]:
    for part_id, client, server in _parts(rule_id, ends):
        yield OfnetRule(
            rule_id=part_id,
            priority=rule.priority,
            src_group=ends.dst_group,
            dst_group=ends.src_group,
            src_address=server,
            dst_address=client,
            protocol=rule.protocol,
            src_port=rule.port,
            action=rule.action,
            audit=rule.audit,
        )


def _parts(rule_id: str, ends: _Ends) -> Iterator[tuple[str, str, str]]:
    """Yield id, source and destination of each match of a rule."""
    pairs = list(product(ends.sources, ends.destinations))
    for part, (source, destination) in enumerate(pairs, start=1):
        yield _part_id(rule_id, part, len(pairs)), source, destination
    if ends.source6 or ends.destination6:
        yield f"{rule_id}:ipv6", ends.source6, ends.destination6


def _part_id(rule_id: str, part: int, parts: int) -> str:
    """Return the original's id if the rule is one match; the others are numbered."""
    return rule_id if parts == 1 else f"{rule_id}:{part}"


def _blocks(span: Span | None) -> tuple[str, ...]:
    if span is None:
        return ("",)
    return tuple(
        ipv4_text(block.base) if block.size == 1 else str(block) for block in blocks4(*span)
    )


def _network_blocks(network: NetworkRecord) -> tuple[str, ...]:
    if network.v4 is None:
        return ()
    if is_bounded(network):
        return _blocks((ipv4(network.first), ipv4(network.last)))
    return _blocks((network.v4.base, network.v4.last))


def _network_block6(network: NetworkRecord) -> str:
    if not network.ipv6_subnet:
        return ""
    return f"{network.ipv6_subnet}/{network.ipv6_subnet_len}"
