"""Application profiles and the groups they are made of."""

import pytest

from contivmodel.objects import AppProfile, EndpointGroup, Link, Tenant
from netmaster.plan.objects import app_profile, group, tenant
from netmaster.plan.show import inspect
from tests.unit.netmaster.scene import Scene


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1")
    for name in ("g1", "g2", "g3"):
        scene.group(name)
    return scene


def a_profile(name: str, *groups: str, tenant_name: str = "default") -> AppProfile:
    return AppProfile(tenant_name=tenant_name, app_profile_name=name, endpoint_groups=list(groups))


def profile_of(scene: Scene, name: str) -> str:
    shown = scene.view.read("endpointGroup", f"default:{name}")
    assert isinstance(shown, EndpointGroup)
    return shown.links.app_profile.key


def test_a_profile_and_its_groups_show_each_other(scene: Scene) -> None:
    reply = scene.do(app_profile.create, a_profile("a", "g1", "g3"))
    assert reply == scene.view.read("appProfile", "default:a")
    assert set(reply.link_sets.endpoint_groups) == {"default:g1", "default:g3"}
    assert reply.links.tenant == Link(type="tenant", key="default")
    assert [profile_of(scene, name) for name in ("g1", "g2", "g3")] == [
        "default:a",
        "",
        "default:a",
    ]


def test_groups_and_tenant_must_exist(scene: Scene) -> None:
    refusal = scene.refused(app_profile.create, a_profile("a", "g1", "nope"))
    assert refusal == "EndpointGroup default:nope not found"
    refusal = scene.refused(app_profile.create, a_profile("a", tenant_name="nope"))
    assert refusal == "Tenant nope not found"
    assert profile_of(scene, "g1") == ""


def test_update_replaces_the_groups(scene: Scene) -> None:
    scene.do(app_profile.create, a_profile("a", "g1", "g3"))
    reply = scene.do(app_profile.create, a_profile("a", "g2"))
    assert reply.endpoint_groups == ["g2"]
    assert [profile_of(scene, name) for name in ("g1", "g2", "g3")] == ["", "default:a", ""]
    refusal = scene.refused(app_profile.update, a_profile("a", "nope"))
    assert refusal == "EndpointGroup default:nope not found"
    assert profile_of(scene, "g2") == "default:a"
    assert scene.refused(app_profile.update, a_profile("x")) == "appProfile not found"


def test_a_group_of_a_profile_stays(scene: Scene) -> None:
    """The finding of docs/notes/trust.md §19."""
    scene.do(app_profile.create, a_profile("a", "g1"))
    refusal = scene.refused(group.delete, "default:g1")
    assert refusal == "Cannot delete g1, associated to appProfile default:a"
    assert scene.do(app_profile.delete, "default:a") == "default:a"
    scene.do(group.delete, "default:g1")
    assert scene.refused(app_profile.delete, "default:a") == "appProfile not found"


def test_a_group_of_two_profiles_shows_the_one_that_is_left(scene: Scene) -> None:
    scene.do(app_profile.create, a_profile("a", "g1"))
    scene.do(app_profile.create, a_profile("b", "g1"))
    assert profile_of(scene, "g1") == "default:b"
    scene.do(app_profile.delete, "default:b")
    assert profile_of(scene, "g1") == "default:a"


def test_a_tenant_with_profiles_stays(scene: Scene) -> None:
    scene.tenant("t")
    scene.do(app_profile.create, a_profile("a", tenant_name="t"))
    assert scene.refused(tenant.delete, "t") == "cannot delete t, has 1 app profiles"
    assert inspect.tenant(scene.view, "t")["totalAppProfiles"] == 1
    shown = scene.view.read("tenant", "t")
    assert isinstance(shown, Tenant)
    assert set(shown.link_sets.app_profiles) == {"t:a"}
    scene.do(app_profile.delete, "t:a")
    scene.do(tenant.delete, "t")
