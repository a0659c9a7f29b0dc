"""Policies from what was seen: limits, names, and what is left out.

`tests/property/test_suggestions.py` shows that they allow what was seen, and nothing else.
"""

import re
from collections import Counter
from collections.abc import Iterable

import pytest

from core.errors import Invalid, NotFound
from core.ids import TenantName
from netmaster.plan.reachability import suggestion
from netmaster.plan.reachability.suggested_network_policies import network_policies
from netmaster.plan.reachability.suggestion import Suggestion, Wish, suggest
from state.conversations import Conversation, Party
from tests.unit.netmaster.scene import Scene

WEB, DB = Party("n1", "web", "", ""), Party("n1", "db", "", "")
DEFAULT = TenantName("default")


def scene() -> Scene:
    """Return two groups of which one has a policy, and endpoints."""
    found = Scene()
    found.network("n1", "10.1.1.0/24")
    found.policy("p1")
    for name, policies in (("web", []), ("db", ["p1"]), ("idle", [])):
        found.group(name, policies=policies)
        found.endpoint(f"c-{name}", service_name=name)
    return found


def outside(address: str) -> Party:
    return Party("", "", "", address)


def of(
    *seen: Conversation,
    found: Scene | None = None,
    dropped: bool = False,
    groups: Iterable[str] = (),
    most_rules: int = suggestion.MOST_RULES,
) -> Suggestion:
    wish = Wish(tenant=DEFAULT, groups=frozenset(groups), dropped=dropped)
    return suggest((found or scene()).view, Counter(seen), wish, most_rules=most_rules)


def allowing(made: Suggestion) -> list[tuple[str, ...]]:
    """Return the rules that allow: whose, which way, what, and the far end."""
    return [
        (
            one.policy_name,
            one.direction,
            f"{one.protocol}/{one.port}",
            "".join(
                (
                    one.from_endpoint_group,
                    one.to_endpoint_group,
                    one.from_network,
                    one.to_network,
                    one.from_ip_address,
                    one.to_ip_address,
                )
            ),
        )
        for one in made.rules
        if one.action == "allow"
    ]


def test_one_rule_is_enough_for_both_groups_and_replaces_what_they_have() -> None:
    made = of(Conversation(WEB, DB, "tcp", 5432))
    assert allowing(made) == [("seen-db", "in", "tcp/5432", "web")]
    assert [(one.key, one.policies, one.replaces) for one in made.groups] == [
        ("default:db", ["seen-db"], ["p1"]),
        ("default:web", ["seen-web"], []),
    ]
    assert made.unseen == ["idle"]
    denied = {(one["source"], one["destination"], one["traffic"]) for one in made.reach["changes"]}
    assert ("db", "web", "any") in denied
    assert ("web", "db", "tcp/5432") not in denied
    assert {one["becomes"] for one in made.reach["changes"]} == {"denied"}


def test_what_has_no_group_is_named_by_its_network_or_blocks_of_addresses() -> None:
    seen = [
        Conversation(Party("n1", "", "", ""), WEB, "tcp", 80),
        *(Conversation(outside(f"8.8.8.{last}"), WEB, "tcp", 80) for last in (4, 5, 9)),
        *(Conversation(outside(f"2001:db8::{last}"), WEB, "tcp", 80) for last in (4, 5, 9)),
        Conversation(WEB, outside("9.9.9.9"), "udp", 53),
    ]
    assert set(allowing(of(*seen))) == {
        ("seen-web", "in", "tcp/80", "n1"),
        ("seen-web", "in", "tcp/80", "8.8.8.4/31"),
        ("seen-web", "in", "tcp/80", "8.8.8.9"),
        ("seen-web", "in", "tcp/80", "2001:db8::4/127"),
        ("seen-web", "in", "tcp/80", "2001:db8::9"),
        ("seen-web", "out", "udp/53", "9.9.9.9"),
    }


def test_too_many_addresses_become_any_and_that_is_told() -> None:
    many = [
        *(Conversation(outside(f"8.8.{one}.1"), WEB, "tcp", 80) for one in range(16)),
        Conversation(outside("2001:db8::1"), WEB, "tcp", 80),
    ]
    assert allowing(of(*many)) == [("seen-web", "in", "tcp/80", "")]
    (told,) = of(*many).wider
    assert "tcp/80 of any address, as there were 17" in told
    assert of(*many[:16]).wider == []


def test_too_many_ports_become_all_and_that_is_told() -> None:
    many = [Conversation(WEB, DB, "tcp", port) for port in range(1000, 1017)]
    made = of(*many, Conversation(WEB, DB, "udp", 53))
    assert allowing(made) == [("seen-db", "in", "/0", "web"), ("seen-db", "out", "/0", "web")]
    (told,) = made.wider
    assert "everything to and from group web" in told
    assert len(allowing(of(*many[:16]))) == 16


def test_what_was_dropped_is_allowed_if_asked_for() -> None:
    dropped = Conversation(WEB, DB, "tcp", 22, dropped=True)
    made = of(dropped, Conversation(WEB, DB, "tcp", 80))
    assert (made.dropped, allowing(made)) == (1, [("seen-db", "in", "tcp/80", "web")])
    made = of(dropped, dropped=True)
    assert (made.dropped, allowing(made)) == (0, [("seen-db", "in", "tcp/22", "web")])


def test_what_is_gone_and_what_no_rule_can_name_is_counted() -> None:
    made = of(
        Conversation(Party("n1", "gone", "", ""), WEB, "tcp", 80),
        Conversation(Party("gone", "", "", ""), WEB, "tcp", 80),
        *(Conversation(DB, WEB, protocol, 0) for protocol in ("0", "256", "tcp", "nonsense")),
    )
    assert (made.left_out, made.rules) == (6, [])


def test_a_policy_has_a_name_that_none_has() -> None:
    found = scene()
    found.policy("seen-web")
    made = of(Conversation(WEB, WEB, "tcp", 80), found=found)
    assert [one.policy_name for one in made.policies] == ["seen-web-2"]
    long = "x" * 64
    found.group(long)
    made = of(found=found, groups=[long])
    assert [len(one.policy_name) for one in made.policies] == [64]


def test_what_does_not_exist_is_refused_and_so_are_too_many_rules() -> None:
    with pytest.raises(NotFound, match="tenant red"):
        suggest(scene().view, {}, Wish(tenant=TenantName("red")))
    with pytest.raises(NotFound, match="group default:nobody"):
        of(groups=["nobody"])
    with pytest.raises(Invalid, match="fewer groups"):
        of(Conversation(WEB, DB, "tcp", 80), most_rules=4)


SHOP_WEB, SHOP_DB = WEB._replace(namespace="shop"), DB._replace(namespace="data")


def test_network_policies_allow_each_end_and_join_ports_and_ends() -> None:
    seen = [
        *(Conversation(SHOP_WEB, SHOP_DB, "tcp", port) for port in (80, 81, 443)),
        *(Conversation(outside("9.9.9.9"), SHOP_DB, "tcp", port) for port in (80, 81, 443)),
        Conversation(Party("n1", "", "", ""), SHOP_DB, "udp", 53),
        Conversation(SHOP_WEB, Party("n1", "", "shop", ""), "icmp", 0),
    ]
    (db, other, web), unsaid = network_policies(scene().view, DEFAULT, seen, ())
    assert db["metadata"] == {"name": "seen-db", "namespace": "data"}
    assert db["spec"]["podSelector"] == {"matchLabels": {"io.contiv.net-group": "db"}}
    assert db["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert db["spec"]["egress"] == []
    joined, udp = db["spec"]["ingress"]
    assert joined["ports"] == [
        {"protocol": "TCP", "port": 80, "endPort": 81},
        {"protocol": "TCP", "port": 443},
    ]
    pods = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
        "podSelector": {"matchLabels": {"io.contiv.net-group": "web"}},
    }
    assert sorted(joined["from"], key=str) == [{"ipBlock": {"cidr": "9.9.9.9/32"}}, pods]
    assert udp["from"] == [{"ipBlock": {"cidr": "10.1.1.0/24"}}]
    assert [one["to"][0]["podSelector"] for one in web["spec"]["egress"]] == [
        {"matchLabels": {"io.contiv.net-group": "db"}}
    ]
    assert other["spec"]["podSelector"]["matchExpressions"][0]["operator"] == "DoesNotExist"
    assert [one.partition(" of ")[0] for one in unsaid] == ["icmp", "icmp"]
    (alone,), _ = network_policies(scene().view, DEFAULT, seen, {"web"})
    assert alone["metadata"]["name"] == "seen-web"


@pytest.mark.parametrize(
    "names",
    [("a.b", "a-b", "A_b"), ("x" * 62 + "1", "x" * 62 + "2"), ("", "no-group")],
    ids=["other letters", "long", "no group"],
)
def test_network_policies_of_a_namespace_have_names_of_their_own(names: tuple[str, ...]) -> None:
    seen = [
        Conversation(outside("9.9.9.9"), Party("n1", name, "shop", ""), "tcp", 80) for name in names
    ]
    found, _ = network_policies(scene().view, DEFAULT, seen, ())
    made = [one["metadata"]["name"] for one in found]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in made)
