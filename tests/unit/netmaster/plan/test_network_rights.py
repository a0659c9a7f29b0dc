"""Which networks a tenant's operator may create."""

from typing import Any

import pytest

from contivmodel.objects import Tenant
from core.errors import ContivError
from netmaster.auth.roles import AccessDenied
from netmaster.plan.network_rights import limited
from netmaster.plan.objects import network, tenant
from tests.unit.netmaster.scene import Scene, a_network


@pytest.fixture
def scene() -> Scene:
    """Give a tenant with a prefix of each family and a quota, and one without."""
    found = Scene()
    found.tenant("red")
    found.do(
        tenant.create,
        Tenant(
            tenant_name="blue",
            network_prefixes=["10.20.0.0/16", "fd00:20::/48"],
            address_quota=512,
        ),
    )
    return found


def asked(scene: Scene, name: str, subnet: str, **more: Any) -> str:
    """Create a network as an operator; return why not, "" if it was created."""
    posted = a_network(name, subnet, **{"tenant_name": "blue"} | more)
    try:
        scene.do(limited(lambda view: network.create(view, posted)))
    except AccessDenied as exc:
        return str(exc)
    return ""


def test_without_prefixes_only_administrators_create_networks(scene: Scene) -> None:
    for name in ("red", "default"):
        text = asked(scene, "n1", "10.20.1.0/24", tenant_name=name)
        assert (
            text
            == f"only administrators create networks in tenant {name}: it has no networkPrefixes"
        )
    scene.network("n1", "10.20.1.0/24", tenant_name="red")


def test_networks_lie_within_the_prefixes(scene: Scene) -> None:
    for subnet, more in (
        ("10.21.0.0/24", {}),
        ("10.16.0.0/12", {}),
        ("10.20.1.0/24", {"ipv6_subnet": "fd00:21::/64"}),
        ("203.0.113.0/24", {"gateway": "203.0.113.1"}),
    ):
        text = asked(scene, "n1", subnet, **more)
        assert (
            "is not within the networkPrefixes of tenant blue: 10.20.0.0/16, fd00:20::/48" in text
        )
    assert asked(scene, "n1", "10.20.1.0/24", ipv6_subnet="fd00:20:0:1::/64") == ""


def test_networks_stay_within_the_quota(scene: Scene) -> None:
    assert asked(scene, "n1", "10.20.1.0/24") == ""
    assert asked(scene, "n2", "10.20.2.0/23") == (
        "tenant blue may have 512 addresses (addressQuota): its networks have 256, and this one "
        "would have 512"
    )
    assert asked(scene, "n2", "10.20.2.10-10.20.2.19/23") == ""
    assert asked(scene, "n3", "10.20.4.0/24") != ""
    scene.network("n3", "10.20.4.0/24", tenant_name="blue")  # an administrator


def test_other_changes_of_operators_are_not_concerned(scene: Scene) -> None:
    scene.network("n1", "10.30.1.0/24", tenant_name="blue")
    scene.do(limited(lambda view: network.delete(view, "blue:n1")))


def test_an_administrator_changes_prefixes_and_quota_of_a_tenant(scene: Scene) -> None:
    wanted = Tenant(key="red", tenant_name="red", network_prefixes=["10.1.0.0/16"])
    assert scene.do(tenant.update, wanted).network_prefixes == ["10.1.0.0/16"]
    unchanged = scene.refused(tenant.update, Tenant(key="red", tenant_name="red"))
    assert unchanged == "Cant change tenant parameters after its created"
    assert scene.refused(tenant.replace, wanted) == unchanged
    assert asked(scene, "n1", "10.1.1.0/24", tenant_name="red") == ""
    scene.do(tenant.replace, Tenant(key="red", tenant_name="red"))
    assert asked(scene, "n2", "10.1.2.0/24", tenant_name="red") != ""


@pytest.mark.parametrize(
    ("prefixes", "quota", "named"),
    [
        (["10.1.0.0"], 0, "'10.1.0.0' is no prefix"),
        (["nonsense/8"], 0, "is no prefix"),
        (["10.0.0.0/33"], 0, "is no prefix"),
        (["fd00::/200"], 0, "is no prefix"),
        (["10.0.0.0/8"] * 65, 0, "at most 64 networkPrefixes"),
        ([], 5, "addressQuota needs networkPrefixes"),
    ],
)
def test_what_is_no_prefix_is_refused(prefixes: list[str], quota: int, named: str) -> None:
    posted = Tenant(tenant_name="green", network_prefixes=prefixes, address_quota=quota)
    with pytest.raises(ContivError, match=named):
        tenant.create(Scene().view, posted)
