"""Tags are of all tenants in one name space: nobody takes another's, now or ahead of it."""

import pytest

from netmaster.plan.objects import group, network
from tests.unit.netmaster.scene import Scene, a_group, a_network


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.tenant("red")
    made.tenant("blue")
    made.network("own", tenant_name="red")
    made.network("theirs", "10.1.2.0/24", tenant_name="blue", cfgd_tag="front")
    return made


@pytest.mark.parametrize("tag", ["web.blue", "theirs.blue"])
def test_what_another_tenant_has_without_asking_is_reserved(scene: Scene, tag: str) -> None:
    posted = a_group("g", "own", tenant_name="red", cfgd_tag=tag)
    reserved = f"tag {tag} is reserved: it ends as another tenant's tags do"
    assert scene.refused(group.create, posted) == f"group {reserved}"
    wanted = a_network("n", "10.1.3.0/24", tenant_name="red", cfgd_tag=tag)
    assert scene.refused(network.create, wanted) == f"network {reserved}"


def test_a_group_takes_no_tag_of_another_tenants_network(scene: Scene) -> None:
    posted = a_group("g", "own", tenant_name="red", cfgd_tag="front")
    assert scene.refused(group.create, posted) == "group tag front is in use"


def test_a_tenants_own_tags_and_others_are_free(scene: Scene) -> None:
    scene.group("one", "own", tenant_name="red", cfgd_tag="x.red")
    scene.group("two", "own", tenant_name="red", cfgd_tag="back")
    scene.group("three", "theirs", tenant_name="blue", cfgd_tag="front")
    assert {*scene.view.group_tags} == {"x.red", "back", "front"}
