"""Tenants."""

from contivmodel.objects import Tenant
from netmaster.plan.objects import group, network, tenant
from tests.unit.netmaster.scene import Scene


def test_the_default_tenant_is_there_from_the_start() -> None:
    scene = Scene()
    assert scene.view.read("tenant", "default") == Tenant(key="default", tenant_name="default")
    assert scene.do(tenant.startup) == scene.view.read("tenant", "default")


def test_a_tenant_shows_what_belongs_to_it() -> None:
    scene = Scene()
    scene.tenant("blue")
    scene.network("n1", tenant_name="blue")
    scene.group("g1", tenant_name="blue")
    blue = scene.view.read("tenant", "blue")
    assert isinstance(blue, Tenant)
    assert set(blue.link_sets.networks) == {"blue:n1"}
    assert set(blue.link_sets.endpoint_groups) == {"blue:g1"}
    assert blue.link_sets.networks["blue:n1"].type == "network"


def test_a_tenant_cannot_be_changed_even_into_itself() -> None:
    scene = Scene()
    scene.tenant("blue")
    text = "Cant change tenant parameters after its created"
    assert scene.refused(tenant.update, Tenant(tenant_name="blue")) == text
    assert scene.refused(tenant.create, Tenant(tenant_name="blue")) == text
    assert scene.refused(tenant.update, Tenant(tenant_name="nope")) == "tenant not found"


def test_a_tenant_without_a_name_is_refused() -> None:
    assert Scene().refused(tenant.create, Tenant()) == "Invalid tenant name"


def test_a_tenant_goes_after_what_belongs_to_it() -> None:
    scene = Scene()
    scene.tenant("blue")
    scene.network("n1", tenant_name="blue")
    scene.group("g1", tenant_name="blue")
    assert scene.refused(tenant.delete, "blue") == "cannot delete blue has 1 endpoint groups"
    scene.do(group.delete, "blue:g1")
    assert scene.refused(tenant.delete, "blue") == "cannot delete blue has 1 networks"
    scene.do(network.delete, "blue:n1")
    assert scene.do(tenant.delete, "blue") == "blue"
    assert scene.refused(tenant.delete, "blue") == "tenant not found"
    assert scene.do(tenant.delete, "default") == "default"
