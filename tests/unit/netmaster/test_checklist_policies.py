"""The original's tests of policies, rules, services and BGP, by their number (A56-A68, A86-A92)."""

from typing import Any

import pytest

from contivmodel.objects import EndpointGroup
from contivmodel.wire import dump
from tests.unit.netmaster.checklist import Checklist

IN: dict[str, Any] = {
    "direction": "in",
    "protocol": "tcp",
    "port": 80,
    "action": "allow",
    "priority": 1,
}
OUT = IN | {"direction": "out"}


class PolicyChecklist(Checklist):
    """A network `contiv`, a group `group1` on it with an endpoint, a policy `policy1`."""

    def __init__(self) -> None:
        super().__init__()
        assert self.net("contiv", "vxlan", "10.1.1.1/16")
        assert self.epg("group1", "contiv")
        self.endpoint("c1", "contiv", service_name="group1", ip_address="10.1.1.15")
        assert self.made("policy1")

    def made(self, policy: str, tenant: str = "default") -> bool:
        return self.post(
            "policys", f"{tenant}:{policy}", tenantName=tenant, policyName=policy
        )  # fmt: skip

    def ruled(self, number: str, policy: str = "policy1", **more: Any) -> bool:
        body = IN | {"tenantName": "default", "policyName": policy, "ruleId": number} | more
        return self.post("rules", f"{body['tenantName']}:{policy}:{number}", **body)

    def balanced(self, **more: Any) -> bool:
        return self.post(
            "serviceLBs", "default:redis", tenantName="default", serviceName="redis",
            networkName="yellow", ports=["80:8080:TCP"],
            selectors=["key1=value1", "key2=value2"], **more,
        )  # fmt: skip


@pytest.fixture
def checklist() -> PolicyChecklist:
    """Give a new cluster with a policy."""
    return PolicyChecklist()


def test_a56_policies(checklist: PolicyChecklist) -> None:
    assert checklist.made("policy2")
    assert not checklist.made("policy2", "nobody")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"protocol": "", "port": 0, "action": "deny"},
        OUT,
        {"fromIpAddress": "10.1.1.1/24"},
        OUT | {"toIpAddress": "10.1.1.1/24"},
        {"fromEndpointGroup": "group1", "action": "deny"},
        OUT | {"toEndpointGroup": "group1"},
    ],
)
def test_a57_rules_that_can_be(checklist: PolicyChecklist, more: dict[str, Any]) -> None:
    assert checklist.ruled("1", **more), checklist.text


@pytest.mark.parametrize(
    "more",
    [
        {"direction": "both"},  # A59
        {"direction": "xyz"},
        {"protocol": "xyz"},
        {"action": "xyz"},
        {"action": "accept"},
        {"policy": "nobody"},
        {"tenantName": "nobody"},
        {"toNetwork": "contiv"},  # A60
        {"toEndpointGroup": "group1"},
        {"toIpAddress": "invalid"},
        OUT | {"fromNetwork": "contiv"},
        OUT | {"fromEndpointGroup": "group1"},
        OUT | {"fromIpAddress": "10.1.1.1/24"},
        {"fromNetwork": "contiv", "fromIpAddress": "10.1.1.1/24"},  # A61
        {"fromNetwork": "contiv", "fromEndpointGroup": "group1"},
        {"fromNetwork": "nobody"},
        {"fromEndpointGroup": "nobody"},
    ],
)
def test_a59_to_a61_rules_that_cannot_be(checklist: PolicyChecklist, more: dict[str, Any]) -> None:
    assert not checklist.ruled("1", **more)


def test_a58_a_rule_to_one_endpoint(checklist: PolicyChecklist) -> None:
    assert not checklist.ruled("1", toIpAddress="10.2.1.31")
    assert checklist.epg("group1", "contiv", policies=["policy1"])
    assert not checklist.ruled("1", toIpAddress="10.1.1.19")
    assert checklist.ruled("1", toIpAddress="10.1.1.15"), checklist.text


def test_a59_and_a62_ids_are_unique_and_free_again(checklist: PolicyChecklist) -> None:
    assert checklist.ruled("1")
    assert not checklist.ruled("1")
    assert checklist.gone("rules", "default:policy1:1")
    assert not checklist.gone("rules", "default:policy1:100")
    assert not checklist.gone("policys", "default:policy2")


def test_a63_and_a64_policies_of_groups(checklist: PolicyChecklist) -> None:
    assert checklist.epg("group2", "contiv")
    assert checklist.made("policy2")
    assert checklist.ruled("1", fromNetwork="contiv")
    assert checklist.ruled("2", **(OUT | {"toNetwork": "contiv"}))
    assert checklist.ruled("1", "policy2", fromEndpointGroup="group2")
    assert checklist.epg("group1", "contiv", policies=["policy1", "policy2"]), checklist.text
    rules = checklist.read("policy", "default:policy1").link_sets.rules
    assert set(rules) == {"default:policy1:1", "default:policy1:2"}


def test_a65_groups_that_cannot_be(checklist: PolicyChecklist) -> None:
    assert not checklist.epg("group2", "contiv", policies=["nobody"])
    assert not checklist.epg("group1", "contiv", policies=["nobody"])
    assert not checklist.epg("group2", "contiv", "nobody")
    assert not checklist.epg("group2", "nobody")


def test_a66_groups_and_networks_share_names(checklist: PolicyChecklist) -> None:
    assert not checklist.epg("contiv", "contiv")
    assert not checklist.net("group1", "vxlan", "10.2.1.0/24")


def test_a67_a_group_keeps_its_network(checklist: PolicyChecklist) -> None:
    assert checklist.net("other", "vxlan", "10.2.1.0/24")
    assert not checklist.epg("group1", "other")


def test_a68_policies_of_a_group_are_replaced(checklist: PolicyChecklist) -> None:
    assert checklist.made("policy2")
    for policy, other in (("policy1", "policy2"), ("policy2", "policy1")):
        assert checklist.epg("group3", "contiv", policies=[policy])
        group = checklist.read("endpointGroup", "default:group3")
        assert isinstance(group, EndpointGroup)
        assert group.policies == [policy]
        assert not checklist.read("policy", f"default:{other}").link_sets.endpoint_groups
    assert checklist.gone("endpointGroups", "default:group3")
    assert checklist.gone("policys", "default:policy2")


def test_a86_a90_and_a91_services(checklist: PolicyChecklist) -> None:
    assert checklist.net("yellow", "vxlan", "20.1.1.0/24")
    assert checklist.balanced(ipAddress="20.1.1.3"), checklist.text
    stored = checklist.read("serviceLB", "default:redis")
    assert stored.selectors == ["key1=value1", "key2=value2"]
    assert (stored.ports, stored.network_name) == (["80:8080:TCP"], "yellow")
    assert [str(record.ip_address) for record in checklist.view.services.values()] == ["20.1.1.3"]
    assert checklist.gone("serviceLBs", "default:redis")
    assert not checklist.view.services
    assert checklist.balanced()
    assert all(record.ip_address for record in checklist.view.services.values())
    assert checklist.gone("serviceLBs", "default:redis")
    assert checklist.gone("networks", "default:yellow")


def test_a92_bgp(checklist: PolicyChecklist) -> None:
    body = {
        "hostname": "hostA",
        "routerip": "65.1.1.1/24",
        "as": "65001",
        "neighbor-as": "65002",
        "neighbor": "16.1.2.3",
    }
    assert checklist.post("Bgps", "hostA", **body), checklist.text
    assert dump(checklist.read("Bgp", "hostA")) == {"key": "hostA"} | body
