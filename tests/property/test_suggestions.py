"""Suggested rules, as the switches have them, allow what was seen, and nothing else."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address, ip_network
from itertools import product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contivmodel.objects import EndpointGroup
from core.ids import TenantName
from netmaster.plan.objects import group, policy, rule
from netmaster.plan.reachability.reach import ReachEnd, Rules, TrafficKind
from netmaster.plan.reachability.suggestion import Suggestion, Wish, suggest
from netmaster.plan.show.ofnet_rules import ofnet_rules
from netmaster.view import View
from state.conversations import Conversation, Party
from tests.unit.netmaster.scene import Scene

TENANT = TenantName("default")
NUMBERS = {"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 1, "sctp": 132, "47": 47}
KINDS = [
    *(("tcp", port) for port in (80, 443)),
    *(("udp", port) for port in (53, 80)),
    *(("icmp", 0), ("icmpv6", 0), ("sctp", 0), ("47", 0)),
]
UNSEEN = [("tcp", 0), ("tcp", 81), ("udp", 54), ("89", 0)]
"""Kinds of traffic that nobody sends; no port is any that no rule names."""
ALLOWED, DENIED, UNANSWERED = "allowed", "denied", "unanswered"
OUTSIDE = ("8.8.8.8", "8.8.8.9", "9.9.9.9", "2001:db8:ffff::1")


@dataclass(frozen=True)
class Place:
    """Who may talk: an endpoint, or an address outside of the cluster."""

    party: Party
    group: int
    addresses: tuple[str, ...]


@cache
def site() -> tuple[View, tuple[Place, ...]]:
    """Return groups with rules of their own, endpoints with and without a group, and others."""
    scene = Scene()
    for number in (1, 2):
        six = f"2001:db8:{number}::"
        scene.network(
            f"n{number}", f"10.{number}.0.0/16", ipv6_subnet=f"{six}/64", ipv6_gateway=f"{six}fe"
        )
    scene.policy("p1")
    scene.rule("1", action="deny", protocol="tcp", priority=20)
    scene.rule("2", protocol="tcp", port=443, priority=30)
    for name, policies in (("web", ["p1"]), ("db", []), ("cache", [])):
        scene.group(name, policies=policies)
    for number, (name, net) in enumerate(
        (("web", 1), ("web", 1), ("db", 1), ("cache", 1), ("", 1), ("", 2))
    ):
        scene.endpoint(f"c{number}", f"n{net}", service_name=name)
    places = [
        Place(
            Party(one.network.partition(".")[0], one.group_key.partition(":")[0], "", ""),
            one.group_id,
            (one.ip_address, one.ipv6_address),
        )
        for one in scene.view.endpoints.values()
    ]
    places += [Place(Party("", "", "", one), 0, (one,)) for one in OUTSIDE]
    return scene.view, tuple(places)


talks = st.lists(
    st.tuples(st.sampled_from(site()[1]), st.sampled_from(site()[1]), st.sampled_from(KINDS)),
    max_size=12,
)


def conversations(said: list[tuple[Place, Place, tuple[str, int]]]) -> Counter[Conversation]:
    return Counter(
        Conversation(source.party, destination.party, protocol, port)
        for source, destination, (protocol, port) in said
    )


def applied(view: View, made: Suggestion) -> Rules:
    """Return the rules of the switches with what is suggested."""
    after = view.copy()
    for one in made.policies:
        after.apply(policy.create(after, one).writes)
    for each in made.rules:
        after.apply(rule.create(after, each).writes)
    for changed in made.groups:
        stored = after.objects[EndpointGroup.kind][changed.key]
        assert isinstance(stored, EndpointGroup)
        wanted = stored.model_copy(update={"policies": changed.policies})
        after.apply(group.change(after, wanted).writes)
    return Rules(ofnet_rules(after))


def outcomes(rules: Rules, source: Place, destination: Place, kind: tuple[str, int]) -> set[str]:
    """Return what becomes of connections, of each family that both ends have."""
    blocks = {text for one in rules.by_id.values() for text in (one.src_address, one.dst_address)}
    ends = [
        [
            ReachEnd(
                TENANT,
                place.group,
                ip_address(text).version,
                tuple(one for one in blocks - {""} if ip_address(text) in ip_network(one)),
            )
            for text in place.addresses
        ]
        for place in (source, destination)
    ]
    traffic = TrafficKind(NUMBERS.get(kind[0], 89), kind[1])
    found = [
        rules.verdict(one, other, traffic)
        for one, other in product(*ends)
        if one.version == other.version
    ]
    return {ALLOWED if one.allowed else UNANSWERED if one.answers else DENIED for one in found}


def is_meant(party: Party, place: Place) -> bool:
    """Return whether a rule about an end is about this one, too."""
    if party.group:
        return party.group == place.party.group
    if party.network:
        return party.network == place.party.network
    return ":" in party.address or party.address in place.addresses


def was_seen(
    said: list[tuple[Place, Place, tuple[str, int]]],
    source: Place,
    destination: Place,
    kind: tuple[str, int],
) -> bool:
    for one, other, (protocol, port) in said:
        if (NUMBERS[protocol], port) != (NUMBERS.get(kind[0], 89), kind[1]):
            continue
        if not (one.group or other.group):
            continue
        if is_meant(one.party, source) and is_meant(other.party, destination):
            return True
        if not port and is_meant(one.party, destination) and is_meant(other.party, source):
            return True  # the answers of what has no port look like what they answer
    return False


@given(talks)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_was_seen_is_allowed_and_nothing_else(
    said: list[tuple[Place, Place, tuple[str, int]]],
) -> None:
    view, places = site()
    made = suggest(view, conversations(said), Wish(tenant=TENANT))
    rules = applied(view, made)
    for source, destination, kind in said:
        assert outcomes(rules, source, destination, kind) <= {ALLOWED}, (source, destination, kind)
    covered = {one.key.partition(":")[2] for one in made.groups}
    for source, destination, kind in product(places, places, [*KINDS, *UNSEEN]):
        if covered.isdisjoint({source.party.group, destination.party.group}):
            continue
        if not was_seen(said, source, destination, kind):
            found = outcomes(rules, source, destination, kind)
            assert found <= {DENIED}, (source, destination, kind)


@given(talks, st.sampled_from(["web", "db", "cache"]))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_policy_for_one_group_denies_nothing_that_was_seen(
    said: list[tuple[Place, Place, tuple[str, int]]], name: str
) -> None:
    view, _ = site()
    made = suggest(view, conversations(said), Wish(tenant=TENANT, groups={name}))
    assert [one.key for one in made.groups] == [f"default:{name}"]
    rules = applied(view, made)
    for source, destination, kind in said:
        if name in {source.party.group, destination.party.group}:
            assert outcomes(rules, source, destination, kind) <= {ALLOWED}, (
                source,
                destination,
                kind,
            )
    assert len({(one.policy_name, one.rule_id) for one in made.rules}) == len(made.rules)
