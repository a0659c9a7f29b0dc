"""`netctl policy kube-rules`."""

import json

from tests.unit.netctl.master import Netctl

FOUND = {
    "items": [
        {
            "policies": ["NetworkPolicy shop/web"],
            "direction": "ingress",
            "tier": "network",
            "order": 0,
            "action": "allow",
            "rule": "TCP 80 from pods app=lb of namespace blue",
            "pods": ["shop/web-1", "shop/web-2"],
            "podCount": 5,
            "packets": 12,
        }
    ],
    "services": [
        {
            "service": "shop/web",
            "addresses": ["10.96.0.1"],
            "ports": ["TCP 80 to 8080", "UDP 53"],
            "pods": ["shop/web-1"],
            "podCount": 1,
        }
    ],
    "complete": False,
    "unreachable": {"h2": "host h2: no netplugin is registered"},
}


def test_rules_and_services_are_told_in_words(netctl: Netctl) -> None:
    netctl.master.kube_rules = FOUND
    done = netctl("policy", "kube-rules", "-n", "shop", "--pod=web-1")
    assert netctl.master.asked == [("namespace", "shop"), ("pod", "web-1")]
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[2] == (
        "ingress NetworkPolicy shop/web allow TCP 80 from pods app=lb of namespace blue 12 "
        "shop/web-1, shop/web-2, 3 more"
    )
    assert lines[-1] == "shop/web 10.96.0.1 TCP 80 to 8080, UDP 53 shop/web-1"
    assert done.err == (
        "no rules or counters of h2: host h2: no netplugin is registered\n"
        "not all is shown: give --namespace or --pod\n"
    )


def test_the_answer_is_data_as_well(netctl: Netctl) -> None:
    netctl.master.kube_rules = FOUND
    shown = json.loads(netctl("policy", "kube-rules", "-j").out)
    assert shown == {"items": FOUND["items"], "services": FOUND["services"]}


def test_pods_that_no_policy_is_about_may_talk(netctl: Netctl) -> None:
    netctl.master.kube_rules = {"items": [], "services": [], "complete": True, "unreachable": {}}
    done = netctl("policy", "kube-rules")
    assert done.out == "No policy of Kubernetes is about these pods: it allows them everything.\n"
    assert done.err == ""
