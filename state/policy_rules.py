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
#
# A network with both families has an ofnet rule for each of them, and so has a rule without any
# address: that one has no address to match. One with an address is of its family alone.

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from core.addresses import Subnet, blocks4, ipv4, ipv4_text, ipv6_text, parse_match, parse_match6
from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName, group_key, network_id
from state.creation import is_bounded
from state.records import GroupRecord, NetworkRecord

Direction = Literal["in", "out"]
Action = Literal["allow", "deny"]
Span = tuple[int, int]
"""First and last of a run of IPv4 addresses."""
Addresses = Span | Subnet
"""What a rule's address field matches: a run of IPv4, or a block of IPv6."""

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
    source: Addresses | None = None
    destination: Addresses | None = None
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
        source=addresses(source),
        destination=addresses(destination),
        log=log,
        audit=audit,
    )


def addresses(text: str) -> Addresses | None:
    """Return what an address field matches; None for "". Raises ValueError."""
    if not text:
        return None
    return parse_match6(text) if ":" in text else parse_match(text)


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
class _End:
    """The addresses of an end: blocks of IPv4, and a block of IPv6, "" for any; None for none."""

    four: tuple[str, ...]
    six: str | None


_ANY: Final = _End(("",), "")


@dataclass(frozen=True, slots=True)
class _Ends:
    """Source and destination of packets: group ids and addresses."""

    src_group: int
    dst_group: int
    source: _End
    destination: _End


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
    source, destination = _end(rule.source), _end(rule.destination)
    if rule.direction == "in":
        if network is not None:
            source = _network_end(network)
        return _Ends(remote, group.group_id, source, destination)
    if network is not None:
        destination = _network_end(network)
    return _Ends(group.group_id, remote, source, destination)


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
    pairs = list(product(ends.source.four, ends.destination.four))
    for part, (source, destination) in enumerate(pairs, start=1):
        yield _part_id(rule_id, part, len(pairs)), source, destination
    source6, destination6 = ends.source.six, ends.destination.six
    if source6 is not None and destination6 is not None and (source6 or destination6):
        yield f"{rule_id}:ipv6", source6, destination6


def _part_id(rule_id: str, part: int, parts: int) -> str:
    """Return the original's id if the rule is one match; the others are numbered."""
    return rule_id if parts == 1 else f"{rule_id}:{part}"


def _end(addresses: Addresses | None) -> _End:
    if addresses is None:
        return _ANY
    if isinstance(addresses, Subnet):
        base, length = ipv6_text(addresses.base), addresses.length
        return _End((), base if addresses.size == 1 else f"{base}/{length}")
    return _End(_blocks(addresses), None)


def _network_end(network: NetworkRecord) -> _End:
    block6 = f"{network.ipv6_subnet}/{network.ipv6_subnet_len}" if network.ipv6_subnet else None
    return _End(_network_blocks(network), block6)


def _blocks(span: Span) -> tuple[str, ...]:
    return tuple(
        ipv4_text(block.base) if block.size == 1 else str(block) for block in blocks4(*span)
    )


def _network_blocks(network: NetworkRecord) -> tuple[str, ...]:
    if network.v4 is None:
        return ()
    if is_bounded(network):
        return _blocks((ipv4(network.first), ipv4(network.last)))
    return _blocks((network.v4.base, network.v4.last))
