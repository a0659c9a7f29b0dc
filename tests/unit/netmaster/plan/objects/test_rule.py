"""Rules: which can be, in the order they are judged, and what they name."""

from typing import Any

import pytest

from contivmodel.objects import Link, posted
from core import keys
from core.addresses import ipv6, subnet6
from core.errors import Invalid
from core.ids import GroupKey
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import group, network, rule
from netmaster.plan.objects.rule import policy_rule
from netmaster.plan.show.ofnet_rules import policy_db
from netmaster.stored import Write
from state.policy_rules import PolicyRule
from state.schema import SchemaStamp
from tests.unit.netmaster.scene import Scene, a_group, a_rule

SIX = {"ipv6_subnet": "fd00:6::/64", "ipv6_gateway": "fd00:6::1"}


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1")
    scene.group("g1")
    scene.policy("p1")
    return scene


TO_IN_INCOMING = "can not specify 'to' parameters in incoming rule"
FROM_IN_OUTGOING = "can not specify 'from' parameters in outgoing rule"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"to_network": "n1"}, TO_IN_INCOMING),
        ({"to_endpoint_group": "g1", "from_network": "x", "from_ip_address": "y"}, TO_IN_INCOMING),
        (
            {"from_network": "n1", "from_ip_address": "1.1.1.1", "from_endpoint_group": "g1"},
            "can not specify both from network and from ip address",
        ),
        (
            {"from_network": "n1", "from_endpoint_group": "nope"},
            "can not specify both from network and from EndpointGroup",
        ),
        ({"direction": "out", "from_network": "n1", "to_network": "n1"}, FROM_IN_OUTGOING),
        ({"direction": "out", "from_endpoint_group": "g1"}, FROM_IN_OUTGOING),
        ({"direction": "out", "from_ip_address": "1.1.1.1"}, FROM_IN_OUTGOING),
        (
            {"direction": "out", "to_network": "n1", "to_ip_address": "1.1.1.1"},
            "can not specify both to-network and to-ip address",
        ),
        (
            {"direction": "out", "to_network": "n1", "to_endpoint_group": "g1"},
            "can not specify both to-network and to-EndpointGroup",
        ),
        ({"direction": "both"}, "invalid direction for the rule"),
        ({"from_endpoint_group": "nope", "policy_name": "nope"}, "endpoint group not found"),
        ({"direction": "out", "to_endpoint_group": "nope"}, "endpoint group not found"),
        ({"from_network": "nope", "policy_name": "nope"}, "from Network not found"),
        ({"direction": "out", "to_network": "nope"}, "to Network not found"),
        ({"policy_name": "nope"}, "Policy not found"),
        ({"tenant_name": "nope"}, "Policy not found"),
        ({"from_ip_address": "10.1.1.9-5"}, "invalid address range 10.1.1.9-5"),
        (
            {"to_ip_address": "10.1.1.1"},
            "failed to configure 10.1.1.1, 0 endpoint groups linked to policy p1 ",
        ),
    ],
)
def test_rules_that_cannot_be(scene: Scene, asked: dict[str, str], text: str) -> None:
    assert scene.refused(rule.create, a_rule("1", **asked)) == text


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"direction": "sideways"}, "direction string invalid format"),
        ({"action": "maybe"}, "action string invalid format"),
        ({"priority": 101}, "priority Value Out of bound"),
        ({"priority": -1}, "priority Value Out of bound"),
        ({"port": 65536}, "port Value Out of bound"),
        ({"port": -1}, "port Value Out of bound"),
        ({"protocol": "999"}, "protocol string invalid format"),
        ({"protocol": "256"}, "protocol string invalid format"),
        ({"protocol": "TCP"}, "protocol string invalid format"),
        ({"from_ip_address": "0.0.0.0/0"}, "fromIpAddress string invalid format"),
        ({"to_ip_address": "10.1.1.1-256"}, "toIpAddress string invalid format"),
        ({"from_endpoint_group": "a_b"}, "fromEndpointGroup string invalid format"),
    ],
)
def test_values_that_cannot_be(asked: dict[str, Any], text: str) -> None:
    with pytest.raises(Invalid, match=f"^{text}$"):
        posted(a_rule("1", **asked), "default:p1:1")


def test_without_a_priority_a_rule_comes_last() -> None:
    assert posted(a_rule("1", priority=0), "default:p1:1").priority == 1


def test_a_rule_names_its_policy_and_the_other_group(scene: Scene) -> None:
    reply = scene.rule("1", from_endpoint_group="g1")
    assert reply == scene.read("rule", "default:p1:1")
    assert reply.link_sets.policies == {"default:p1": Link(type="policy", key="default:p1")}
    assert reply.links.match_endpoint_group == Link(type="endpointGroup", key="default:g1")
    assert list(scene.read("endpointGroup", "default:g1").link_sets.match_rules) == ["default:p1:1"]
    assert scene.rule("2").links.match_endpoint_group == Link()


def test_a_rule_is_never_changed(scene: Scene) -> None:
    scene.rule("1")
    refusal = "can not update a rule after its created"
    assert scene.refused(rule.update, a_rule("1")) == refusal
    assert scene.refused(rule.create, a_rule("1", action="deny")) == refusal
    assert scene.refused(rule.update, a_rule("2")) == "rule not found"


def test_a_rule_is_deleted_without_a_trace(scene: Scene) -> None:
    scene.rule("1", from_endpoint_group="g1")
    assert scene.do(rule.delete, "default:p1:1") == "default:p1:1"
    assert scene.refused(rule.delete, "default:p1:1") == "rule not found"
    assert scene.read("policy", "default:p1").link_sets.rules == {}
    assert scene.read("endpointGroup", "default:g1").link_sets.match_rules == {}


def test_an_address_of_an_endpoint_of_the_only_group(scene: Scene) -> None:
    scene.do(group.update, a_group("g1", policies=["p1"]))
    here = scene.endpoint("c1", service_name="g1").ip_address
    elsewhere = scene.endpoint("c2").ip_address
    assert scene.rule("1", to_ip_address=here).to_ip_address == here
    refusal = scene.refused(rule.create, a_rule("2", to_ip_address=elsewhere))
    assert refusal == f"failed to configure {elsewhere}, ip address is not in epg g1:default"
    scene.group("g2", policies=["p1"])
    refusal = scene.refused(rule.create, a_rule("2", to_ip_address=here))
    assert refusal == f"failed to configure {here}, 2 endpoint groups linked to policy p1 "


def test_a_rule_has_addresses_of_ipv6(scene: Scene) -> None:
    incoming = scene.rule("1", from_ip_address="2001:DB8::1:0/112")
    assert policy_rule(incoming).source == subnet6(ipv6("2001:db8::1:0"), 112)
    outgoing = scene.rule("2", direction="out", to_ip_address="fd00::5")
    assert policy_rule(outgoing).destination == subnet6(ipv6("fd00::5"), 128)
    scene.network("six", "", **SIX)
    scene.group("g6", "six", policies=["p1"])
    address = scene.endpoint("c1", "six", service_name="g6").ipv6_address
    assert scene.rule("3", to_ip_address=f"fd00:6::000{address[-1]}")
    refusal = scene.refused(rule.create, a_rule("4", to_ip_address="fd00:6::99"))
    assert refusal == "failed to configure fd00:6::99, ip address is not in epg g6:default"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"from_ip_address": "fd00::1:2:3:4:5:6:7:8"}, "fromIpAddress string invalid format"),
        (
            {"from_ip_address": "fd00::1", "to_ip_address": "10.1.1.1"},
            "no packet is from fd00::1 to 10.1.1.1: give both ends addresses of one family",
        ),
    ],
)
def test_addresses_of_ipv6_that_cannot_be(scene: Scene, asked: dict[str, str], text: str) -> None:
    assert scene.refused(rule.create, a_rule("1", **asked)) == text


def test_no_rule_of_ipv6_while_older_agents_read_the_store(scene: Scene) -> None:
    scene.view.apply([Write(keys.SCHEMA, SchemaStamp(1), new=False)])
    assert "upgrade them" in scene.refused(rule.create, a_rule("1", from_ip_address="fd00::1"))


def test_a_rule_keeps_neither_group_nor_network(scene: Scene) -> None:
    scene.network("n2", "10.2.1.0/24")
    scene.rule("1", from_endpoint_group="g1")
    scene.rule("2", from_network="n2")
    scene.do(group.delete, "default:g1")
    scene.do(network.delete, "default:n2")
    stored = scene.read("rule", "default:p1:1")
    assert stored.links.match_endpoint_group.key == "default:g1"


def test_a_group_that_returns_finds_its_rules(scene: Scene) -> None:
    scene.rule("1", from_endpoint_group="g1")
    scene.do(group.delete, "default:g1")
    reply = scene.group("g1")
    assert list(reply.link_sets.match_rules) == ["default:p1:1"]


def test_a_rule_for_switches(scene: Scene) -> None:
    incoming = scene.rule(
        "1", from_endpoint_group="g1", from_ip_address="10.1.1.0/24", protocol="tcp", port=80
    )
    assert policy_rule(incoming) == PolicyRule(
        tenant=incoming.tenant_name,
        policy="p1",
        rule_id="1",
        direction="in",
        action="allow",
        priority=1,
        protocol=6,
        port=80,
        group=incoming.from_endpoint_group,
        source=(0x0A010100, 0x0A0101FF),
    )
    outgoing = policy_rule(
        scene.rule("2", direction="out", action="deny", to_network="n1", priority=7)
    )
    assert (outgoing.direction, outgoing.action, outgoing.priority) == ("out", "deny", 7)
    assert (outgoing.network, outgoing.group) == ("n1", None)
    assert (outgoing.source, outgoing.destination) == (None, None)


def test_ofnet_rules_follow_attachment(scene: Scene) -> None:
    scene.rule("1", protocol="tcp", port=80)
    assert policy_db(scene.view) == {}
    scene.do(group.update, a_group("g1", policies=["p1"]))
    number = scene.view.groups[GroupKey("g1:default")].group_id
    shown = policy_db(scene.view)
    assert list(shown) == [
        "default:g1:default:p1:default:p1:1:inRx",
        "default:g1:default:p1:default:p1:1:inTx",
    ]
    assert shown["default:g1:default:p1:default:p1:1:inRx"] == {
        "RuleId": "default:g1:default:p1:default:p1:1:inRx",
        "Priority": 1,
        "SrcEndpointGroup": 0,
        "DstEndpointGroup": number,
        "SrcIpAddr": "",
        "DstIpAddr": "",
        "IpProtocol": 6,
        "SrcPort": 0,
        "DstPort": 80,
        "TcpFlags": "",
        "Action": "allow",
    }
    scene.do(group.update, a_group("g1"))
    assert policy_db(scene.view) == {}


def test_an_aci_fabric_enforces_policies_itself(scene: Scene) -> None:
    scene.do(group.update, a_group("g1", policies=["p1"]))
    scene.rule("1")
    assert policy_db(scene.view)
    stored = scene.read("global", "global")
    scene.do(settings.update, stored.model_copy(update={"network_infra_type": "aci"}))
    assert policy_db(scene.view) == {}
