"""An ACI fabric: groups' own VLANs, and what the gateway is sent about a profile."""

import json
from dataclasses import replace
from typing import Any

import pytest

from contivmodel.objects import AciGw, AppProfile, ExtContractsGroup, Global, Policy, Rule
from core.ids import GroupKey
from netmaster.plan.endpoints import endpoint
from netmaster.plan.external import aci, pending_effects
from netmaster.plan.external.aci import ProfileOperation
from netmaster.plan.model import Plan
from netmaster.plan.objects import aci_gateway, app_profile, contracts, group, policy, rule
from netmaster.plan.objects import globals as settings
from netmaster.stored import PendingProfile
from tests.unit.netmaster.scene import Scene, a_group, wanted

PROFILE = AppProfile(tenant_name="default", app_profile_name="a", endpoint_groups=["web", "db"])


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    turn_aci(scene)
    scene.network("n1", gateway="10.1.1.254", encap="vlan")
    scene.do(policy.create, Policy(tenant_name="default", policy_name="p"))
    scene.group("web")
    scene.group("db", policies=["p"])
    return scene


def turn_aci(scene: Scene, infra: str = "aci") -> None:
    stored = scene.view.read("global", "global")
    assert isinstance(stored, Global)
    scene.do(settings.update, stored.model_copy(update={"network_infra_type": infra}))


def a_rule(rule_id: str, **more: Any) -> Rule:
    asked: dict[str, Any] = {"direction": "in", "action": "allow", "protocol": "tcp", "port": 80}
    return Rule(tenant_name="default", policy_name="p", rule_id=rule_id, **(asked | more))


def operations(scene: Scene, plan: Plan) -> tuple[ProfileOperation, ...]:
    return aci.operations(scene.view, plan.writes)


def body(scene: Scene) -> dict[str, Any]:
    """Return the body that is sent when the profile is created now."""
    (operation,) = operations(scene, app_profile.create(scene.view, PROFILE))
    assert operation.wanted is not None
    sent: dict[str, Any] = json.loads(operation.wanted)
    return sent


def links(scene: Scene) -> dict[str, list[tuple[str, str]]]:
    return {
        epg["name"]: [
            (link["link-kind"], link["contract-name"]) for link in epg.get("contract-links", [])
        ]
        for epg in body(scene)["epgs"]
    }


def test_the_gateway_of_a_network_of_ipv6_alone_is_of_ipv6(scene: Scene) -> None:
    scene.do(group.delete, "default:web")
    six = {"ipv6_subnet": "fd00:9::/64", "ipv6_gateway": "fd00:9::1"}
    scene.network("six", "", encap="vlan", pkt_tag=9, **six)
    scene.group("web", "six")
    gateways = {epg["name"]: epg["gw-cidr"] for epg in body(scene)["epgs"]}
    assert gateways == {"web": "fd00:9::1/64", "db": "10.1.1.254/24"}


def test_each_group_has_a_vlan_of_its_own(scene: Scene) -> None:
    vlans = [scene.view.groups[GroupKey(f"{name}:default")].pkt_tag for name in ("web", "db")]
    assert vlans == [2, 3]
    assert scene.view.segments.vlans == {1, 2, 3}
    scene.reload()
    assert scene.view.segments.vlans == {1, 2, 3}
    scene.do(group.delete, "default:web")
    assert scene.view.segments.vlans == {1, 3}
    scene.group("other")
    assert scene.view.groups[GroupKey("other:default")].pkt_tag == 2


def test_a_vlan_stays_a_groups_own_when_the_fabric_is_another(scene: Scene) -> None:
    turn_aci(scene, "default")
    scene.do(group.delete, "default:web")
    assert scene.view.segments.vlans == {1, 3}
    scene.group("plain")
    assert scene.view.groups[GroupKey("plain:default")].pkt_tag == 1


def test_a_group_needs_a_vlan_network(scene: Scene) -> None:
    scene.network("n2", "10.2.1.0/24")
    refusal = scene.refused(group.create, a_group("g", "n2"))
    assert refusal == "network type must be VLAN for ACI mode"


def test_endpoints_without_a_group_join_the_default_one(scene: Scene) -> None:
    assert scene.refused(endpoint.create, wanted("c1"), 0.0) == "key not found"
    scene.group("default-group")
    assert scene.endpoint("c1").group_key == "default-group:default"
    assert scene.endpoint("c2", service_name="web").group_key == "web:default"


def test_what_a_profile_looks_like(scene: Scene) -> None:
    gateway = AciGw(
        name="aciGw", physical_domain="dom", enforce_policies="yes", include_common_tenant="no"
    )
    scene.do(aci_gateway.create, gateway)
    scene.do(rule.create, a_rule("1", from_endpoint_group="web"))
    assert body(scene) == {
        "aci-gw-api-version": "v1.2",
        "gw-config": {
            "key": "aciGw",
            "enforcePolicies": "yes",
            "includeCommonTenant": "no",
            "name": "aciGw",
            "physicalDomain": "dom",
        },
        "tenant": "default",
        "app-prof": "a",
        "contract-defs": [
            {"name": "pFrmweb", "filter-info": [{"protocol": "tcp", "servport": "80"}]}
        ],
        "epgs": [
            {
                "name": "web",
                "nw-name": "n1",
                "gw-cidr": "10.1.1.254/24",
                "vlan-tag": "2",
                "contract-links": [
                    {
                        "link-kind": "CONSUME",
                        "contract-name": "pFrmweb",
                        "contract-kind": "INTERNAL",
                    }
                ],
            },
            {
                "name": "db",
                "nw-name": "n1",
                "gw-cidr": "10.1.1.254/24",
                "vlan-tag": "3",
                "contract-links": [
                    {
                        "link-kind": "PROVIDE",
                        "contract-name": "pFrmweb",
                        "contract-kind": "INTERNAL",
                    }
                ],
            },
        ],
    }
    assert json.loads(aci.deletion("default:a")) == {"tenant": "default", "app-prof": "a"}


def test_who_provides_and_who_consumes(scene: Scene) -> None:
    scene.do(rule.create, a_rule("1"))
    scene.do(rule.create, a_rule("2", direction="out", to_endpoint_group="web", port=0))
    scene.do(rule.create, a_rule("3", action="deny", from_endpoint_group="web"))
    assert links(scene) == {
        "web": [("PROVIDE", "pToweb")],
        "db": [("PROVIDE", "pExpose"), ("CONSUME", "pToweb")],
    }
    assert body(scene)["contract-defs"] == [
        {"name": "pExpose", "filter-info": [{"protocol": "tcp", "servport": "80"}]},
        {"name": "pToweb", "filter-info": [{"protocol": "tcp", "servport": "0"}]},
    ]


def test_each_group_of_a_policy_has_its_part(scene: Scene) -> None:
    scene.do(rule.create, a_rule("1"))
    scene.do(group.update, a_group("web", policies=["p"]))
    assert links(scene) == {"web": [("PROVIDE", "pExpose")], "db": [("PROVIDE", "pExpose")]}


def test_external_contracts(scene: Scene) -> None:
    asked = {"tenant_name": "default", "contracts": ["dn1", "dn2"]}
    for name, kind in (("c", "consumed"), ("p", "provided")):
        more = {"contracts_group_name": name, "contracts_type": kind}
        scene.do(contracts.create, ExtContractsGroup.model_validate(asked | more))
    scene.do(group.update, a_group("web", ext_contracts_grps=["c"]))
    scene.do(group.update, a_group("db", ext_contracts_grps=["p"]))
    consumer, provider = (epg["contract-links"] for epg in body(scene)["epgs"])
    assert consumer == [
        {"link-kind": "CONSUME", "contract-dn": name, "contract-kind": "EXTERNAL"}
        for name in ("dn1", "dn2")
    ]
    assert {link["link-kind"] for link in provider} == {"PROVIDE"}


@pytest.mark.parametrize(
    "more",
    [
        {"from_ip_address": "10.1.1.1"},
        {"from_network": "n1"},
        {"direction": "out", "to_ip_address": "10.1.1.1", "action": "deny"},
    ],
)
def test_rules_that_no_fabric_can_express(scene: Scene, more: dict[str, Any]) -> None:
    bad = a_rule("1", **more)
    text = "rule default:p:1 is invalid, only From/ToEndpointGroup may be specified in ACI mode"
    scene.do(app_profile.create, PROFILE)
    plan = rule.create(scene.view, bad)
    assert scene.refused(aci.operations, plan.writes) == text
    scene.do(app_profile.delete, "default:a")
    scene.do(rule.create, bad)
    plan = app_profile.create(scene.view, PROFILE)
    assert scene.refused(aci.operations, plan.writes) == text


def test_the_gateway_hears_of_what_changes_a_profile(scene: Scene) -> None:
    scene.do(app_profile.create, PROFILE)
    view = scene.view
    found = operations(scene, rule.create(view, a_rule("1")))
    assert [(operation.profile, operation.known) for operation in found] == [("default:a", True)]
    assert "pExpose" in (found[0].wanted or "")
    scene.do(rule.create, a_rule("1"))
    for plan in (
        rule.delete(view, "default:p:1"),
        group.update(view, a_group("web", policies=["p"])),
        app_profile.update(view, PROFILE.model_copy(update={"endpoint_groups": ["db"]})),
    ):
        assert [(operation.profile, operation.known) for operation in operations(scene, plan)] == [
            ("default:a", True)
        ]
    (gone,) = operations(scene, app_profile.delete(view, "default:a"))
    assert gone == ProfileOperation("default:a", known=True, wanted=None)


def test_it_hears_of_nothing_else(scene: Scene) -> None:
    scene.do(app_profile.create, PROFILE)
    for plan in (
        app_profile.update(scene.view, PROFILE),
        group.create(scene.view, a_group("other", policies=["p"])),
        rule.create(scene.view, a_rule("1", action="deny")),
    ):
        assert operations(scene, plan) == ()
    turn_aci(scene, "default")
    assert operations(scene, app_profile.delete(scene.view, "default:a")) == ()


def test_a_rule_reaches_the_profile_of_its_other_end(scene: Scene) -> None:
    alone = AppProfile(tenant_name="default", app_profile_name="w", endpoint_groups=["web"])
    scene.do(app_profile.create, alone)
    plan = rule.create(scene.view, a_rule("1", from_endpoint_group="web"))
    (operation,) = operations(scene, plan)
    assert operation.profile == "default:w"
    scene.do(rule.create, a_rule("1", from_endpoint_group="web"))
    scene.do(group.update, a_group("db"))
    (operation,) = operations(scene, policy.delete(scene.view, "default:p"))
    assert operation.profile == "default:w"
    assert "pFrmweb" not in (operation.wanted or "")


def test_pending_effects_are_stored_and_end(scene: Scene) -> None:
    plan = app_profile.create(scene.view, PROFILE)
    found = operations(scene, plan)
    scene.do(lambda view: Plan(pending_effects.recorded(view, found), reply=None))
    assert list(scene.view.pending_effects.values()) == [PendingProfile("default:a")]
    assert pending_effects.recorded(scene.view, found) == ()
    scene.reload()
    assert aci.sync_operation(scene.view, "default:a").wanted is None
    scene.do(lambda _: plan)
    assert aci.sync_operation(scene.view, "default:a") == ProfileOperation(
        "default:a", known=True, wanted=found[0].wanted
    )
    other = replace(found[0], profile="default:b")
    scene.do(lambda view: Plan(pending_effects.ended(view, [*found, other]), reply=None))
    assert scene.view.pending_effects == {}
