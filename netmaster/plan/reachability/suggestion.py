"""The fewest rules that allow the connections that were seen, and deny all else. Pure.

In come conversations (`state.conversations`) and a view; out come a policy for each group, its
rules, and what they would newly deny: the plans of the objects are carried out on a copy of the
view. Next: `netmaster.plan.reachability.reach_changes`.
"""

# A group gets one policy, instead of those that it has. Two rules of the least priority deny
# whatever comes and goes; every other rule allows.
#
# Rules of all groups are in one table, and the greatest priority decides. So one rule is enough for
# a connection between two groups, at the group of its destination; with its port it is about
# answers too. What has no port is allowed both ways: its answers look like what they answer.

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any, Final, Literal, NamedTuple, TypeVar

from contivmodel.checks import NAME_BYTES
from contivmodel.objects import EndpointGroup, Policy, RestObject, Rule, Tenant
from core import ids
from core.errors import Invalid, NotFound
from core.ids import GroupName, TenantName
from core.numbers import bounded
from netmaster.plan.objects import group as groups
from netmaster.plan.objects import policy as policies
from netmaster.plan.objects import rule as rules
from netmaster.plan.reachability import reach_changes
from netmaster.plan.reachability.reach_changes import ReachChanges
from netmaster.view import View, network_named
from state.conversations import Conversation, Party

DENIED, ALLOWED = 1, 10
"""The priorities of the rules that deny and allow."""

MOST_PORTS: Final = 16
"""Ports of a protocol between the same ends; of more, all traffic between them is allowed."""

MOST_BLOCKS: Final = 16
"""Blocks of addresses at the same port; of more, any address is allowed."""

MOST_RULES: Final = 1000
"""Rules of a suggestion."""

_WITH_PORTS: Final = ("tcp", "udp")
_LAST_PROTOCOL: Final = 255
_NUMBERS: Final = {"icmpv6": "icmp", "sctp": "132", "igmp": "2"}
"""What rules call the protocols of records."""

M = TypeVar("M", bound=RestObject)
Direction = Literal["in", "out"]
Block = IPv4Network | IPv6Network
Json = dict[str, Any]


class FarEnd(NamedTuple):
    """The other end of a rule: a group, a network, an address, or any."""

    kind: Literal["group", "network", "address", "any"]
    name: str = ""


ANY: Final = FarEnd("any")


class AllowedService(NamedTuple):
    """What is allowed: a protocol of rules, and a port, 0 for all; "" is everything."""

    protocol: str
    port: int = 0


EVERYTHING: Final = AllowedService("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Whose connections are to be allowed.

    `groups` get policies, all that were seen if there are none; `dropped`: what policies dropped is
    to be allowed too.
    """

    tenant: TenantName
    groups: Collection[str] = ()
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedGroup:
    """A group that gets a policy instead of others."""

    key: str
    policies: list[str]
    replaces: list[str]


@dataclass(slots=True, kw_only=True)
class Suggestion:
    """Objects to make, in this order, and what they would change.

    `wider` says which rules allow more than was seen; `unseen` are groups of which nothing was
    seen. Left out are the connections that policies dropped, and `left_out` those of groups and
    networks that are gone, or of a protocol that rules cannot name.
    """

    policies: list[Policy] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    groups: list[SuggestedGroup] = field(default_factory=list)
    reach: ReachChanges
    wider: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    dropped: int = 0
    left_out: int = 0


Grants = dict[tuple[Direction, FarEnd], set[AllowedService]]
"""What a group's policy allows, by direction and other end."""


def suggest(
    view: View, seen: Mapping[Conversation, int], wish: Wish, *, most_rules: int = MOST_RULES
) -> Suggestion:
    """Return what to make.

    Raises NotFound for a tenant or group that does not exist, Invalid for too many rules.
    """
    known = check(view, wish)
    suggestion = Suggestion(reach={"changes": [], "complete": True})
    wanted = []
    for one, count in seen.items():
        if one.dropped and not wish.dropped:
            suggestion.dropped += count
            continue
        source, destination = (
            _peer(view, wish.tenant, end) for end in (one.source, one.destination)
        )
        service = service_of(one)
        if source is None or destination is None or service is None:
            suggestion.left_out += count
        else:
            wanted.append((source, destination, service))
    met = {peer.name for *ends, _ in wanted for peer in ends if peer.kind == "group"}
    covered = set(wish.groups) or met
    suggestion.unseen = sorted(set(wish.groups or known) - met)
    _make(view, wish.tenant, grants_of(wanted, covered), suggestion, most_rules)
    return suggestion


def check(view: View, wish: Wish) -> frozenset[str]:
    """Return the tenant's groups. Raises NotFound for a tenant or group that does not exist."""
    if wish.tenant not in view.objects[Tenant.kind]:
        raise NotFound(f"tenant {wish.tenant} not found")
    keys = view.members(EndpointGroup.kind, Tenant.kind, wish.tenant)
    known = frozenset(key.partition(":")[2] for key in keys)
    for name in wish.groups:
        if name not in known:
            raise NotFound(f"group {wish.tenant}:{name} not found")
    return known


def service_of(one: Conversation) -> AllowedService | None:
    """Return what rules call the traffic of a conversation; None for what they cannot name."""
    protocol = _NUMBERS.get(one.protocol, one.protocol)
    if protocol in _WITH_PORTS:
        return AllowedService(protocol, one.port) if one.port else None
    if protocol == "icmp" or bounded(protocol, 1, _LAST_PROTOCOL) is not None:
        return AllowedService(protocol)
    return None


def _peer(view: View, tenant: TenantName, end: Party) -> FarEnd | None:
    """Return what a rule calls an end; None for what is there no more."""
    if end.group:
        group = ids.group_key(GroupName(end.group), tenant)
        return FarEnd("group", end.group) if group in view.groups else None
    if end.network:
        there = network_named(view, end.network, tenant) is not None
        return FarEnd("network", end.network) if there else None
    return FarEnd("address", end.address)


def grants_of(
    wanted: Iterable[tuple[FarEnd, FarEnd, AllowedService]], covered: Collection[str]
) -> dict[str, Grants]:
    """Return what the policy of each covered group has to allow."""
    found: dict[str, Grants] = {name: defaultdict(set) for name in sorted(covered)}
    for source, destination, service in wanted:
        if destination.kind == "group" and destination.name in found:
            holder, direction, peer = destination.name, "in", source
        elif source.kind == "group" and source.name in found:
            holder, direction, peer = source.name, "out", destination
        else:
            continue
        ways: tuple[Direction, ...] = ("in", "out")
        for way in ways:
            if way == direction or not service.port:
                found[holder][way, peer].add(service)
    return found


def _make(
    view: View,
    tenant: TenantName,
    granted: dict[str, Grants],
    into: Suggestion,
    most_rules: int,
) -> None:
    """Make the objects, and compare what the view would be with them."""
    after = view.copy()
    names = _free_names(view, tenant, granted)
    for name, grants in granted.items():
        made = [*_denying(), *_allowing(grants, f"group {name}", into.wider)]
        if len(into.rules) + len(made) > most_rules:
            raise Invalid(f"more than {most_rules} rules would be needed: ask for fewer groups")
        policy = _keyed(Policy(tenant_name=tenant, policy_name=names[name]))
        after.apply(policies.create(after, policy).writes)
        into.policies.append(policy)
        for number, words in enumerate(made, start=1):
            rule = _keyed(
                Rule(tenant_name=tenant, policy_name=names[name], rule_id=str(number), **words)
            )
            after.apply(rules.create(after, rule).writes)
            into.rules.append(rule)
        key = ids.object_key(tenant, name)
        group = after.objects[EndpointGroup.kind][key]
        if isinstance(group, EndpointGroup):
            changed = group.model_copy(update={"policies": [names[name]]})
            after.apply(groups.change(after, changed).writes)
            replaces = [one for one in group.policies if one != names[name]]
            into.groups.append(SuggestedGroup(key=key, policies=[names[name]], replaces=replaces))
    into.reach = reach_changes.compare(view, after)


def _keyed(obj: M) -> M:
    return obj.model_copy(update={"key": obj.object_key()})


def _free_names(view: View, tenant: TenantName, names: Iterable[str]) -> dict[str, str]:
    """Return a name for the policy of each group that no policy has."""
    taken = {*view.objects[Policy.kind], *view.orphaned_rules}
    found = {}
    for name in names:
        number, free = 1, f"seen-{name}"[:NAME_BYTES].rstrip("-.")
        while ids.object_key(tenant, free) in taken:
            number += 1
            tail = f"-{number}"
            free = f"seen-{name}"[: NAME_BYTES - len(tail)].rstrip("-.") + tail
        taken.add(ids.object_key(tenant, free))
        found[name] = free
    return found


def _denying() -> Iterator[Json]:
    for direction in ("in", "out"):
        yield {"direction": direction, "action": "deny", "priority": DENIED}


def _allowing(grants: Grants, whose: str, wider: list[str]) -> list[Json]:
    """Return the rules of a group's policy that allow, the fewest; tell which allow more."""
    joined = _joined_ports(grants, whose, wider)
    found: list[Json] = []
    ways: tuple[Direction, ...] = ("in", "out")
    for direction in ways:
        by_service: dict[AllowedService, set[FarEnd]] = defaultdict(set)
        for (way, peer), services in joined.items():
            for service in services if way == direction else ():
                by_service[service].add(peer)
        whole = by_service.get(EVERYTHING, set())
        for service, peers in sorted(by_service.items()):
            left = peers if service == EVERYTHING else peers - whole
            joint = _joined_peers(left, service, f"{whose}, {direction}", wider)
            found += [_rule(direction, peer, service) for peer in joint]
    return found


def _joined_ports(grants: Grants, whose: str, wider: list[str]) -> Grants:
    """Return grants in which what has too many ports is everything, both ways.

    A rule for all ports of TCP would be about packets that open connections alone, not answers.
    """
    found: Grants = {}
    many = set()
    for (way, peer), services in grants.items():
        counts = [
            sum(one.protocol == protocol and one.port > 0 for one in services)
            for protocol in _WITH_PORTS
        ]
        if max(counts) > MOST_PORTS:
            many.add(peer)
        found[way, peer] = services
    for peer in sorted(many):
        wider.append(
            f"{whose}: everything to and from {peer.kind} {peer.name}, "
            f"as there were connections to more than {MOST_PORTS} ports"
        )
        found["in", peer] = found["out", peer] = {EVERYTHING}
    return found


def _joined_peers(
    peers: Iterable[FarEnd], service: AllowedService, where: str, wider: list[str]
) -> list[FarEnd]:
    """Return as few peers as allow the same; more where there are too many addresses."""
    told = sorted(peers)
    addresses = [ip_network(one.name) for one in told if one.kind == "address"]
    blocks: list[Block] = [
        *collapse_addresses(one for one in addresses if isinstance(one, IPv4Network)),
        *collapse_addresses(one for one in addresses if isinstance(one, IPv6Network)),
    ]
    others = [one for one in told if one.kind != "address"]
    if len(blocks) > MOST_BLOCKS and service != EVERYTHING:
        traffic = f"{service.protocol}/{service.port}" if service.port else service.protocol
        wider.append(f"{where}: {traffic} of any address, as there were {len(addresses)}")
        return [ANY]
    return [*others, *(FarEnd("address", _text(one)) for one in blocks)]


def _text(block: Block) -> str:
    return str(block.network_address) if block.prefixlen == block.max_prefixlen else str(block)


_FIELDS: Final = {
    ("in", "group"): "from_endpoint_group",
    ("in", "network"): "from_network",
    ("in", "address"): "from_ip_address",
    ("out", "group"): "to_endpoint_group",
    ("out", "network"): "to_network",
    ("out", "address"): "to_ip_address",
}


def _rule(direction: Direction, peer: FarEnd, service: AllowedService) -> Json:
    words: Json = {"direction": direction, "action": "allow", "priority": ALLOWED}
    if peer != ANY:
        words[_FIELDS[direction, peer.kind]] = peer.name
    if service.protocol:
        words["protocol"] = service.protocol
    if service.port:
        words["port"] = service.port
    return words
