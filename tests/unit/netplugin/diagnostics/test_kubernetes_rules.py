"""What an agent says of the policies and services of its pods."""

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from core.errors import SwitchUnavailable
from netplugin.diagnostics import kubernetes_rules
from netplugin.diagnostics.kubernetes_rules import MAX_ITEMS, MAX_NAMED
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import ADMIN_POLICIES, NETWORK_POLICIES
from netplugin.world.kubernetes.rules import PodAddress, PolicyPod
from tests.unit.netplugin.diagnostics.rule_scene import agents, policies
from tests.unit.netplugin.world.services_of_pods import WEB, target

TCP_80 = "TCP 80 from all pods of namespace shop"


async def said(
    kubernetes: KubePolicies, *asked: str, services: Any = (), most: int = MAX_ITEMS
) -> Any:
    found, _ = agents(kubernetes)
    return await kubernetes_rules.report(found, kubernetes, lambda: services, *asked, most=most)


async def test_rules_have_the_packets_of_their_flows() -> None:
    """Each flow counts 3, on two bridges; the pod has one address."""
    report = await said(policies())
    assert [
        (one["rule"], one["action"], one["packets"], one["pods"]) for one in report["rules"]
    ] == [
        ("everything from anybody", "allow", 6, ["shop/web-1"]),
        (TCP_80, "allow", 6, ["shop/web-1"]),
        ("nothing else", "deny", 6, ["shop/web-1"]),
    ]
    assert (report["complete"], report["missing"]) == (True, {})


async def test_the_numbers_of_a_named_port_are_added_up() -> None:
    kubernetes = policies()
    for number in (2, 3):
        pod = PolicyPod(
            namespace="shop",
            name=f"web-{number}",
            labels={},
            addresses=(PodAddress(1, ip_address(f"10.1.1.{number + 1}")),),
            local=True,
            ports={"http": (6, 8000 + number)},
        )
        kubernetes.put_pod(pod)
    spec = {"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]}
    meta = {"namespace": "shop", "name": "named"}
    kubernetes.put(NETWORK_POLICIES, {"metadata": meta, "spec": spec})
    (named,) = (one for one in (await said(kubernetes))["rules"] if "http" in one["rule"])
    assert named["packets"] == 12
    assert named["podCount"] == 3


async def test_an_administrators_rule_is_told_with_its_place() -> None:
    kubernetes = policies()
    everyone: dict[str, Any] = {"namespaces": {}}
    rule = {"action": "Deny", "from": [everyone]}
    spec = {"priority": 1, "subject": everyone, "ingress": [rule, rule]}
    kubernetes.put(ADMIN_POLICIES, {"metadata": {"name": "first"}, "spec": spec})
    first, second, *_ = (await said(kubernetes))["rules"]
    assert (first["tier"], first["order"], second["order"]) == ("admin", 0, 1)
    assert (first["packets"], first["policies"]) == (6, ["AdminNetworkPolicy first"])


async def test_pods_are_chosen_by_namespace_and_name() -> None:
    assert len((await said(policies(), "shop", "web-1"))["rules"]) == 3
    for asked in (("blue", "web-1"), ("shop", "web-2"), ("", "w")):
        assert (await said(policies(), *asked))["rules"] == []


async def test_services_of_the_pods_here_are_told() -> None:
    kubernetes = policies()
    (port, _) = WEB.ports
    near = replace(target(1), pod="shop/web-1")
    here = replace(WEB, ports=(replace(port, targets=frozenset({near, target(9)})),))
    (service,) = (await said(kubernetes, services=[here]))["services"]
    assert service == {
        "service": "shop/web",
        "addresses": ["10.96.0.1", "192.0.2.7"],
        "ports": ["TCP 80 to 8080 (node port 30080)"],
        "pods": ["shop/web-1"],
        "podCount": 1,
    }
    assert (await said(kubernetes, "blue", services=[here]))["services"] == []


async def test_a_bridge_that_does_not_answer_is_named_and_the_rules_are_told() -> None:
    kubernetes = policies()
    found, switches = agents(kubernetes)
    switches[0].failures.append(SwitchUnavailable("gone"))
    report = await kubernetes_rules.report(found, kubernetes, list)
    assert report["missing"] == {"contivVxlanBridge": "gone"}
    assert [one["packets"] for one in report["rules"]] == [3, 3, 3]


async def test_what_is_told_has_an_end() -> None:
    kubernetes = policies()
    more = tuple(ip_address(f"192.0.2.{number}") for number in range(MAX_NAMED))
    near = replace(target(1), pod="shop/web-1")
    port = replace(WEB.ports[0], targets=frozenset({near}))
    wide = replace(WEB, external_ips=more, ports=(port,))
    (service,) = (await said(kubernetes, services=[wide]))["services"]
    assert len(service["addresses"]) == MAX_NAMED + 1
    assert service["addresses"][-1] == "1 more"
    for number in range(2, MAX_NAMED + 3):
        address = PodAddress(1, ip_address(f"10.1.2.{number}"))
        name = f"web-{number}"
        pod = PolicyPod(namespace="shop", name=name, labels={}, addresses=(address,), local=True)
        kubernetes.put_pod(pod)
    rule = (await said(kubernetes))["rules"][0]
    assert (len(rule["pods"]), rule["podCount"]) == (MAX_NAMED, MAX_NAMED + 2)
    report = await said(kubernetes, most=2)
    assert (len(report["rules"]), report["complete"]) == (2, False)
