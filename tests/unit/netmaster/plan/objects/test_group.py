"""Endpoint groups: pools, ids, what may change."""

import pytest

from contivmodel.objects import Link
from core.ids import GroupKey
from netmaster.plan.endpoints import endpoint
from netmaster.plan.objects import group
from netmaster.plan.show import inspect
from state.records import Encap
from tests.unit.netmaster.scene import Scene, a_group, wanted


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    return scene


def test_a_group_is_object_and_record(scene: Scene) -> None:
    reply = scene.group("g1")
    assert reply == scene.view.read("endpointGroup", "default:g1")
    assert reply.links.network == Link(type="network", key="default:n1")
    assert reply.links.tenant == Link(type="tenant", key="default")
    record = scene.view.groups[GroupKey("g1:default")]
    assert (record.group_id, record.pkt_tag, record.ext_pkt_tag) == (1, 1, 1)
    assert (record.encap, record.group_tag, record.ip_pool) == (Encap.VXLAN, "g1.default", "")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"tenant_name": "nope"}, "Tenant not found"),
        ({"network_name": "nope"}, "Network nope not found"),
        ({"group_name": "n1"}, "Network n1 conflicts with the endpointGroup name"),
        ({"ip_pool": "10.1.1.20-10.1.1.10"}, "invalid ip-pool 10.1.1.20-10.1.1.10"),
        ({"ip_pool": "10.1.1.20-10.1.2.30"}, "invalid ip-pool 10.1.1.20-10.1.2.30"),
        ({"ip_pool": "10.1.1.300"}, "invalid ip-pool 10.1.1.300"),
        (
            {"ip_pool": "10.1.2.0-10.1.2.20"},
            "bad ip-pool 10.1.2.0-10.1.2.20, EPG ip-pool must be a subset of network 10.1.1.0/24",
        ),
        ({"ip_pool": "10.1.1.0-10.1.1.20"}, "ip address 10.1.1.0 is not available"),
        ({"ip_pool": "10.1.1.255"}, "ip address 10.1.1.255 is not available"),
        ({"ip_pool": "10.1.1.250-10.1.1.254"}, "ip address 10.1.1.254 is not available"),
        ({"ip_pool": "::1-::2"}, "ipv6 address pool is not supported for Endpoint Groups"),
        ({"policies": ["p1"]}, "Policy not found"),
        ({"net_profile": "p1"}, "netprofile not found"),
        ({"ext_contracts_grps": ["c1"]}, "External contracts group c1 not found"),
    ],
)
def test_groups_that_cannot_be(scene: Scene, asked: dict[str, str], text: str) -> None:
    posted = a_group("g1").model_copy(update=asked)
    assert scene.refused(group.create, posted) == text


def test_a_pool_must_be_wholly_free(scene: Scene) -> None:
    scene.endpoint("c1")
    scene.group("g1", ip_pool="10.1.1.10-10.1.1.20")
    refusal = scene.refused(group.create, a_group("g2", ip_pool="10.1.1.15-10.1.1.25"))
    assert refusal == "ip address 10.1.1.15 is not available"
    refusal = scene.refused(group.create, a_group("g2", ip_pool="10.1.1.1-10.1.1.5"))
    assert refusal == "ip address 10.1.1.1 is not available"
    scene.group("g2", ip_pool="10.1.1.21-10.1.1.25")


def test_a_pool_must_lie_in_the_networks_range(scene: Scene) -> None:
    scene.network("n2", "10.2.1.10-10.2.1.20/24")
    refusal = scene.refused(group.create, a_group("g1", "n2", ip_pool="10.2.1.15-10.2.1.25"))
    assert refusal == "ip address 10.2.1.21 is not available"


def test_a_pool_of_one_address(scene: Scene) -> None:
    reply = scene.group("g1", ip_pool="10.1.1.40")
    assert reply.ip_pool == "10.1.1.40"
    assert scene.view.groups[GroupKey("g1:default")].ip_pool == "10.1.1.40-10.1.1.40"
    assert scene.endpoint("c1", service_name="g1").ip_address == "10.1.1.40"


def test_pools_show_as_allocated_in_their_network() -> None:
    scene = Scene()
    scene.network("n1", "10.2.2.0/24")
    for name, pool in (("a", "10.2.2.5-10.2.2.10"), ("b", "10.2.2.11-10.2.2.30"), ("c", "")):
        scene.group(name, ip_pool=pool)
    assert scene.lists() == ("10.2.2.5-10.2.2.30", "10.2.2.1-10.2.2.4, 10.2.2.31-10.2.2.254", 0)
    scene.endpoint("c1", service_name="a")
    oper = inspect.group(scene.view, "default:a")
    assert oper["allocatedIPAddresses"] == "10.2.2.5"
    assert oper["availableIPAddresses"] == "10.2.2.6-10.2.2.10"
    assert (oper["groupTag"], oper["numEndpoints"]) == ("a.default", 1)
    assert [ep["endpointID"] for ep in oper["endpoints"]] == ["c1"]
    without = inspect.group(scene.view, "default:c")
    assert without["allocatedIPAddresses"] == without["availableIPAddresses"] == ""
    assert scene.refused(inspect.group, "default:nope") == "endpointGroup not found"


def test_delete_returns_the_pool(scene: Scene) -> None:
    scene.group("g1", ip_pool="10.1.1.1-10.1.1.9")
    assert scene.do(group.delete, "default:g1") == "default:g1"
    assert scene.lists() == ("10.1.1.254", "10.1.1.1-10.1.1.253", 0)
    assert scene.refused(group.delete, "default:g1") == "endpointGroup not found"
    scene.group("g2", ip_pool="10.1.1.1-10.1.1.9")


def test_a_pool_returns_without_what_is_still_reserved_in_it(scene: Scene) -> None:
    scene.group("g1", ip_pool="10.1.1.1-10.1.1.9")
    assert scene.allocate("n1:g1.default") == "10.1.1.1/24"
    scene.do(group.delete, "default:g1")
    assert scene.endpoint("c1").ip_address == "10.1.1.2"
    scene.release("10.1.1.1")
    assert scene.endpoint("c2").ip_address == "10.1.1.1"


def test_a_group_with_endpoints_stays(scene: Scene) -> None:
    scene.group("g1")
    scene.endpoint("c1", service_name="g1")
    assert scene.refused(group.delete, "default:g1") == "Error: EPG g1 has active endpoints"
    scene.delete_endpoint("c1")
    scene.do(group.delete, "default:g1")


def test_update_keeps_network_and_pool(scene: Scene) -> None:
    scene.group("g1", ip_pool="10.1.1.10-10.1.1.20")
    pool = {"ip_pool": "10.1.1.10-10.1.1.20"}
    refusal = scene.refused(group.update, a_group("g1", "n2", **pool))
    assert refusal == "Cannot change network association after epg is created."
    for changed in ("", "10.1.1.10-10.1.1.30", "10.1.1.1-19.3.1.21"):
        refusal = scene.refused(group.update, a_group("g1", ip_pool=changed))
        assert refusal == "Cannot change IP pool after epg is created."
    refusal = scene.refused(group.update, a_group("g1", policies=["p1"], **pool))
    assert refusal == "Policy not found"
    assert scene.refused(group.update, a_group("g9")) == "endpointGroup not found"


def test_policies_are_attached_and_detached(scene: Scene) -> None:
    for name in ("p1", "p2", "p3"):
        scene.policy(name)
    created = scene.group("g1", policies=["p1", "p2"])
    assert sorted(created.link_sets.policies) == ["default:p1", "default:p2"]
    changed = scene.do(group.update, a_group("g1", policies=["p3", "p2"]))
    assert changed == scene.read("endpointGroup", "default:g1")
    assert changed.policies == ["p3", "p2"]
    assert sorted(changed.link_sets.policies) == ["default:p2", "default:p3"]
    in_use = {
        name: bool(scene.read("policy", f"default:{name}").link_sets.endpoint_groups)
        for name in ("p1", "p2", "p3")
    }
    assert in_use == {"p1": False, "p2": True, "p3": True}
    refusal = scene.refused(group.update, a_group("g1", policies=["p1", "nope"]))
    assert refusal == "Policy not found"
    assert scene.read("endpointGroup", "default:g1") == changed
    assert scene.do(group.update, a_group("g1")).link_sets.policies == {}


def test_a_policy_named_twice_counts_once(scene: Scene) -> None:
    scene.policy("p1")
    scene.policy("p2")
    scene.group("g1")
    changed = scene.do(group.update, a_group("g1", policies=["p1", "p2", "p1"]))
    assert changed.policies == ["p1", "p2"]
    assert scene.group("g2", policies=["p1", "p1"]).policies == ["p1"]
    assert scene.do(group.update, a_group("g1", policies=["p2"])).policies == ["p2"]
    assert scene.do(group.update, a_group("g1")).policies == []


def test_a_deleted_group_lets_go_of_its_policies(scene: Scene) -> None:
    scene.policy("p1")
    scene.group("g1", policies=["p1"])
    scene.do(group.delete, "default:g1")
    assert scene.read("policy", "default:p1").link_sets.endpoint_groups == {}


def test_update_answers_the_stored_group_and_keeps_its_tag(scene: Scene) -> None:
    created = scene.group("g1", cfgd_tag="web")
    assert scene.do(group.update, a_group("g1", cfgd_tag="other")) == created
    assert scene.do(group.create, a_group("g1")) == created
    assert scene.view.groups[GroupKey("g1:default")].group_tag == "web"


def test_a_tag_names_one_group(scene: Scene) -> None:
    scene.group("g1", cfgd_tag="web")
    refusal = scene.refused(group.create, a_group("g2", cfgd_tag="web"))
    assert refusal == "group tag web is in use by endpoint group g1:default"


def test_ids_go_round_also_after_a_restart(scene: Scene) -> None:
    for name in ("a", "b", "c"):
        scene.group(name)
    scene.do(group.delete, "default:c")
    scene.reload()
    scene.group("d")
    assert scene.view.groups[GroupKey("d:default")].group_id == 4


def test_a_group_belongs_to_one_network(scene: Scene) -> None:
    scene.network("n2", "10.2.0.0/24")
    scene.group("g2", "n2")
    refusal = scene.refused(endpoint.create, wanted("c1", service_name="g2"), 0.0)
    assert refusal == "endpoint group g2:default belongs to network n2.default"
