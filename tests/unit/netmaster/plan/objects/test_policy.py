"""Policies: their links, what keeps them, and how they go with all their rules."""

import pytest

from contivmodel.objects import Link, Rule
from core import keys
from netmaster.plan.objects import group, policy, tenant
from netmaster.plan.objects.policy import CHUNK
from netmaster.plan.show import inspect
from tests.unit.netmaster.scene import Scene, a_group, a_policy


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1")
    return scene


def test_a_policy_belongs_to_its_tenant(scene: Scene) -> None:
    reply = scene.policy("p1")
    assert reply == scene.read("policy", "default:p1")
    assert reply.links.tenant == Link(type="tenant", key="default")
    assert list(scene.read("tenant", "default").link_sets.policies) == ["default:p1"]
    assert inspect.tenant(scene.view, "default")["totalPolicies"] == 1


@pytest.mark.parametrize(
    ("asked", "text"),
    [({"tenant_name": "nope"}, "Tenant not found"), ({"tenant_name": ""}, "Invalid tenant name")],
)
def test_policies_that_cannot_be(scene: Scene, asked: dict[str, str], text: str) -> None:
    assert scene.refused(policy.create, a_policy("p1", **asked)) == text


def test_an_update_changes_nothing_and_answers_the_stored_policy(scene: Scene) -> None:
    scene.policy("p1")
    scene.rule("1")
    stored = scene.read("policy", "default:p1")
    assert scene.do(policy.create, a_policy("p1")) == stored
    assert scene.do(policy.update, a_policy("p1")) == stored
    assert stored.link_sets.rules == {"default:p1:1": Link(type="rule", key="default:p1:1")}
    assert scene.refused(policy.update, a_policy("p2")) == "policy not found"


def test_groups_and_policies_name_each_other(scene: Scene) -> None:
    scene.policy("p1")
    scene.group("n1p", policies=["p1"])
    assert list(scene.read("policy", "default:p1").link_sets.endpoint_groups) == ["default:n1p"]
    assert list(scene.read("endpointGroup", "default:n1p").link_sets.policies) == ["default:p1"]


def test_names_of_other_kinds_are_not_mixed_up() -> None:
    scene = Scene()
    scene.network("same", "10.9.1.0/24")
    scene.network("n1")
    scene.policy("same")
    scene.group("g1", "n1", policies=["same"])
    scene.group("g2", "same")
    shown = {
        kind: list(scene.read(kind, "default:same").link_sets.endpoint_groups)
        for kind in ("network", "policy")
    }
    assert shown == {"network": ["default:g2"], "policy": ["default:g1"]}


def test_a_policy_in_use_stays(scene: Scene) -> None:
    scene.policy("p1")
    scene.group("g1", policies=["p1"])
    assert scene.refused(policy.delete, "default:p1") == "Policy is being used"
    scene.do(group.update, a_group("g1"))
    assert scene.do(policy.delete, "default:p1") == "default:p1"
    assert scene.refused(policy.delete, "default:p1") == "policy not found"


def test_a_tenant_with_policies_stays(scene: Scene) -> None:
    scene.tenant("t")
    scene.policy("p1", tenant_name="t")
    scene.policy("p2", tenant_name="t")
    assert scene.refused(tenant.delete, "t") == "cannot delete t has 2 policies"
    scene.do(policy.delete, "t:p1")
    scene.do(policy.delete, "t:p2")
    scene.do(tenant.delete, "t")


def test_endpoints_of_all_its_groups(scene: Scene) -> None:
    scene.policy("p1")
    scene.group("g1", policies=["p1"])
    scene.group("g2", policies=["p1"])
    scene.group("g3")
    for number in (1, 2, 3):
        scene.endpoint(f"c{number}", service_name=f"g{number}")
    oper = inspect.policy(scene.view, "default:p1")
    assert oper["numEndpoints"] == 2
    assert [ep["endpointID"] for ep in oper["endpoints"]] == ["c1", "c2"]
    assert scene.refused(inspect.policy, "default:p2") == "policy not found"


@pytest.mark.parametrize("count", [0, 1, CHUNK])
def test_a_small_policy_goes_in_one_transaction(scene: Scene, count: int) -> None:
    scene.policy("p1")
    for number in range(count):
        scene.rule(str(number))
    plan = policy.delete(scene.view, "default:p1")
    assert plan.then is None
    assert len(plan.writes) == count + 1
    scene.do(policy.delete, "default:p1")
    assert not [key for key in scene.store if key.startswith(keys.RULES)]


def test_a_large_policy_is_gone_at_once_and_its_rules_follow(scene: Scene) -> None:
    scene.policy("p1")
    scene.policy("p2")
    scene.rule("other", policy_name="p2")
    scene.group("g1")
    for number in range(2 * CHUNK + 5):
        scene.rule(str(number), from_endpoint_group="g1")
    plan = policy.delete(scene.view, "default:p1")
    assert plan.then is policy.sweep
    scene.do(policy.delete, "default:p1")

    assert list(scene.view.objects["rule"]) == ["default:p2:other"]
    assert scene.read("endpointGroup", "default:g1").link_sets.match_rules == {}
    assert len([key for key in scene.store if key.startswith(keys.RULES)]) == CHUNK + 5 + 1
    refusal = scene.refused(policy.create, a_policy("p1"))
    assert refusal == "policy default:p1 is still being deleted, try again"

    assert scene.do(policy.sweep) == CHUNK
    scene.reload()
    assert scene.do(policy.sweep) == 5
    assert scene.do(policy.sweep) == 0
    assert [key for key in scene.store if key.startswith(keys.RULES)] == [
        keys.obj("rule", "default:p2:other")
    ]
    scene.policy("p1")
    assert scene.read("policy", "default:p1").link_sets.rules == {}
    scene.do(policy.delete, "default:p1")


def test_what_is_left_of_several_policies_is_swept(scene: Scene) -> None:
    for name in ("p1", "p2"):
        scene.policy(name)
        for number in range(CHUNK + 3):
            scene.rule(str(number), policy_name=name)
        scene.do(policy.delete, f"default:{name}")
    assert scene.do(policy.sweep) == 6
    assert policy.sweep(scene.view).then is None


def audited(scene: Scene) -> list[str]:
    """Return the ids of the rules under audit, as the store has them."""
    rules = scene.view.objects["rule"].values()
    return sorted(one.rule_id for one in rules if isinstance(one, Rule) and one.audit)


def test_a_policy_under_audit_has_all_its_rules_under_audit(scene: Scene) -> None:
    scene.policy("p1")
    scene.rule("1")
    scene.policy("p2")
    scene.rule("other", policy_name="p2")
    reply = scene.do(policy.update, a_policy("p1", enforcement=policy.AUDIT))
    assert reply == scene.read("policy", "default:p1")
    assert reply.enforcement == policy.AUDIT
    assert scene.rule("2").audit, "a rule that is added"
    assert audited(scene) == ["1", "2"]
    scene.do(policy.update, a_policy("p1"))
    assert audited(scene) == ["1", "2"], "a client of the original leaves it as it is"
    scene.do(policy.replace, a_policy("p1"))
    assert audited(scene) == []
    assert scene.read("policy", "default:p1").enforcement == ""


def test_a_policy_may_begin_under_audit(scene: Scene) -> None:
    scene.policy("p1", enforcement=policy.AUDIT)
    assert scene.rule("1").audit
    assert scene.do(policy.set_audited) == 0


def test_single_rules_under_audit_are_enforced_with_their_policy(scene: Scene) -> None:
    scene.policy("p1")
    scene.rule("1", audit=True)
    scene.rule("2")
    assert audited(scene) == ["1"]
    assert scene.do(policy.set_audited) == 0
    reply = scene.do(policy.update, a_policy("p1", enforcement=policy.ENFORCING))
    assert reply.enforcement == policy.ENFORCING
    assert audited(scene) == []
    assert scene.read("policy", "default:p1").enforcement == ""


def test_rules_of_a_large_policy_follow_and_no_part_denies_more(scene: Scene) -> None:
    scene.policy("p1")
    scene.policy("p2", enforcement=policy.AUDIT)
    for number in range(2 * CHUNK + 5):
        scene.rule(f"{number:03}", action="deny" if number % 2 else "allow")
    denying = [f"{number:03}" for number in range(1, 2 * CHUNK + 5, 2)]
    plan = policy.replace(scene.view, a_policy("p1", enforcement=policy.AUDIT))
    assert plan.then is policy.set_audited
    scene.do(policy.replace, a_policy("p1", enforcement=policy.AUDIT))
    assert audited(scene) == denying[:CHUNK], "rules that deny go first"
    scene.reload()
    assert scene.do(policy.set_audited) == CHUNK
    assert scene.do(policy.set_audited) == 5
    assert scene.do(policy.set_audited) == 0
    assert len(audited(scene)) == 2 * CHUNK + 5

    scene.do(policy.replace, a_policy("p1"))
    assert scene.read("policy", "default:p1").enforcement == policy.ENFORCING
    assert set(denying) < set(audited(scene)), "and come back last"
    scene.reload()
    while scene.do(policy.set_audited):
        pass
    assert audited(scene) == []
    assert scene.read("policy", "default:p1").enforcement == ""
