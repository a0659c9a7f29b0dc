"""Groups of external contracts, and the groups that name them."""

import pytest

from contivmodel.objects import ExtContractsGroup
from netmaster.plan.objects import contracts, group
from tests.unit.netmaster.scene import Scene, a_group


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1")
    return scene


def some_contracts(name: str = "c", kind: str = "consumed", **more: object) -> ExtContractsGroup:
    asked: dict[str, object] = {
        "tenant_name": "default",
        "contracts_group_name": name,
        "contracts_type": kind,
        "contracts": ["uni/tn-common/brc-x"],
    }
    return ExtContractsGroup.model_validate(asked | more)


def test_contracts_are_provided_or_consumed(scene: Scene) -> None:
    for name, kind in (("c", "consumed"), ("p", "provided")):
        reply = scene.do(contracts.create, some_contracts(name, kind))
        assert reply == scene.view.read("extContractsGroup", f"default:{name}")
    refusal = scene.refused(contracts.create, some_contracts("x", "something"))
    assert refusal == "Contracts group need to be either 'provided' or 'consumed'"
    refusal = scene.refused(contracts.create, some_contracts("x", tenant_name="nope"))
    assert refusal == "Tenant nope not found"


def test_contracts_cannot_be_changed(scene: Scene) -> None:
    scene.do(contracts.create, some_contracts())
    for asked in (some_contracts(), some_contracts(kind="provided")):
        refusal = scene.refused(contracts.create, asked)
        assert refusal == "external contracts update not supported"
    assert scene.refused(contracts.update, some_contracts("x")) == "extContractsGroup not found"


def test_contracts_in_use_stay(scene: Scene) -> None:
    scene.do(contracts.create, some_contracts())
    reply = scene.group("g1", ext_contracts_grps=["c"])
    assert set(reply.link_sets.ext_contracts_grps) == {"default:c"}
    shown = scene.view.read("extContractsGroup", "default:c")
    assert isinstance(shown, ExtContractsGroup)
    assert set(shown.link_sets.endpoint_groups) == {"default:g1"}
    refusal = scene.refused(contracts.delete, "default:c")
    assert refusal == "External contracts group is in-use"
    assert scene.do(group.update, a_group("g1")).link_sets.ext_contracts_grps == {}
    assert scene.do(contracts.delete, "default:c") == "default:c"
    assert scene.refused(contracts.delete, "default:c") == "extContractsGroup not found"


def test_a_group_names_contracts_that_exist(scene: Scene) -> None:
    scene.do(contracts.create, some_contracts())
    refusal = scene.refused(group.create, a_group("g1", ext_contracts_grps=["c", "x"]))
    assert refusal == "External contracts group x not found"
    scene.group("g1")
    refusal = scene.refused(group.update, a_group("g1", ext_contracts_grps=["x"]))
    assert refusal == "External contracts group x not found"
    scene.do(group.update, a_group("g1", ext_contracts_grps=["c"]))
