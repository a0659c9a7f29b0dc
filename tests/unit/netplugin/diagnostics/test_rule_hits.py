"""What an agent says of the hits of rules."""

from dataclasses import replace
from ipaddress import ip_address

from core.errors import SwitchUnavailable
from netplugin.diagnostics import rule_hits
from netplugin.world.kube_policies.objects import NETWORK_POLICIES
from netplugin.world.kube_policies.policies import KubePolicies
from netplugin.world.kube_policies.rules import PodAddress, PolicyPod
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.world import Bridge, FwdMode, Rule, World
from tests.unit.ofnet.fake_switch import FakeSwitch

WEB = Rule(id="web", priority=1, allow=True, src_group=1, protocol=6, dst_port=80)


def policies() -> KubePolicies:
    """Return two policies: one with peers and ports, one that allows its pods everything."""
    found = KubePolicies()
    found.put_namespace("shop", {})
    address = PodAddress(1, ip_address("10.1.1.2"))
    pod = PolicyPod(namespace="shop", name="web-1", labels={}, addresses=(address,), local=True)
    found.put_pod(pod)
    narrow = {"from": [{"podSelector": {}}], "ports": [{"port": 80}]}
    for name, allowed in (("web", narrow), ("open", {})):
        spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [allowed]}
        meta = {"namespace": "shop", "name": name}
        found.put(NETWORK_POLICIES, {"metadata": meta, "spec": spec})
    return found


def agents(kubernetes: KubePolicies) -> tuple[dict[Bridge, BridgeAgent], list[FakeSwitch]]:
    """Return the agents of two bridges, whose switches have all flows; each counts 3 packets."""
    world = World(fwd_mode=FwdMode.ROUTING, rules={"web": WEB}, policy_entries=kubernetes.entries)
    found, switches = {}, []
    for bridge in Bridge:
        switch = FakeSwitch()
        found[bridge] = BridgeAgent(switch, bridge, world)
        switch.table.update(found[bridge].desired.flows)
        switch.counted = {flow.cookie: (3, 200) for flow in switch.table.values()}
        switches.append(switch)
    return found, switches


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
