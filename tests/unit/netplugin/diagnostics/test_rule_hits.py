"""What an agent says of the hits of rules."""

from dataclasses import replace

from core.errors import SwitchUnavailable
from netplugin.diagnostics import rule_hits
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.world import Bridge
from tests.unit.netplugin.diagnostics.rule_scene import agents, policies


async def test_both_bridges_are_added_up_by_rule() -> None:
    kubernetes = policies()
    found, _ = agents(kubernetes)
    said = await rule_hits.report(found, kubernetes)
    assert said["rules"] == {"web": [12, 800]}  # two families on two bridges
    assert said["missing"] == {}


async def test_rules_of_kubernetes_are_named_as_far_as_they_have_flows_of_their_own() -> None:
    kubernetes = policies()
    found, _ = agents(kubernetes)
    said = await rule_hits.report(found, kubernetes)
    named = {(one["rule"], *one["policies"], one["verdict"]) for one in said["kubernetes"]}
    assert named == {
        (
            "networkpolicies shop/web/ingress/0",
            "networkpolicies shop/web",
            "allow",
        ),
        ("", "networkpolicies shop/open", "allow"),
        ("", "networkpolicies shop/open", "networkpolicies shop/web", "deny"),
    }
    assert {one["packets"] for one in said["kubernetes"]} == {6}


async def test_a_bridge_that_does_not_answer_is_named() -> None:
    kubernetes = policies()
    found, switches = agents(kubernetes)
    switches[0].failures.append(SwitchUnavailable("gone"))
    said = await rule_hits.report(found, kubernetes)
    assert said["missing"] == {"contivVxlanBridge": "gone"}
    assert said["rules"] == {"web": [6, 400]}


async def test_flows_that_are_no_more_wanted_do_not_count() -> None:
    kubernetes = policies()
    found, switches = agents(kubernetes)
    other = BridgeAgent(
        switches[0], Bridge.VXLAN, replace(found[Bridge.VXLAN].world, rules={}, policy_entries={})
    )
    assert await other.hits(ObjectKind.RULE) == {}
    assert (await rule_hits.report({Bridge.VXLAN: other}, kubernetes))["kubernetes"] == []
