"""Quotas of a tenant: what counts, who is refused, and what a quota does not touch."""

from collections.abc import Callable
from typing import Any

import pytest

from contivmodel.objects import Tenant
from contivmodel.rpc import AddressBlocksRequest, AllocAddressRequest
from core.errors import QuotaExceeded
from core.ids import TenantName
from netmaster.plan import quotas
from netmaster.plan.endpoints import address, address_blocks, endpoint
from netmaster.plan.endpoints.address_blocks import Renewal
from netmaster.plan.model import Plan
from netmaster.plan.objects import group, network, policy, rule, tenant
from netmaster.view import View
from tests.unit.netmaster.scene import (
    NOW,
    Scene,
    a_group,
    a_network,
    a_policy,
    a_rule,
    wanted,
)

DEFAULT = TenantName("default")


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254", ipv6_subnet="2001:db8::/64")
    scene.policy("p1")
    return scene


def _limit(scene: Scene, **limits: Any) -> None:
    stored = scene.read("tenant", "default").model_copy(update=limits)
    scene.do(tenant.replace, stored)


def _within(decide: Callable[..., Plan], *asked: Any) -> Callable[[View], Plan]:
    return quotas.limited(lambda view: decide(view, *asked))


def _refused(scene: Scene, decide: Callable[..., Plan], *asked: Any) -> str:
    with pytest.raises(QuotaExceeded) as caught:
        _within(decide, *asked)(scene.view)
    return str(caught.value)


@pytest.mark.parametrize(
    ("quota", "what", "decide", "make"),
    [
        (
            "network_quota",
            "networks",
            network.create,
            lambda n: a_network(f"m{n}", f"10.{n}.0.0/24"),
        ),
        ("group_quota", "groups", group.create, lambda n: a_group(f"g{n}")),
        ("policy_quota", "policies", policy.create, lambda n: a_policy(f"q{n}")),
        ("rule_quota", "rules", rule.create, lambda n: a_rule(str(n))),
    ],
)
def test_a_tenant_has_no_more_objects_than_its_quota(
    quota: str,
    what: str,
    decide: Callable[..., Plan],
    make: Callable[[int], Any],
    scene: Scene,
) -> None:
    _limit(scene, **{quota: 3})
    has = quotas.used(scene.view, DEFAULT)[what][0]
    for number in range(has, 3):
        scene.do(_within(decide, make(number + 10)))
    assert quotas.used(scene.view, DEFAULT) == {what: (3, 3)}
    text = f"tenant default may have 3 {what} by its quota: it has 3, and this would make 4"
    assert _refused(scene, decide, make(99)) == text
    _limit(scene, **{quota: 1})  # nothing is taken away
    assert quotas.used(scene.view, DEFAULT) == {what: (3, 1)}
    _limit(scene, **{quota: 0})
    scene.do(_within(decide, make(99)))
    assert quotas.used(scene.view, DEFAULT) == {}


def test_an_update_creates_nothing(scene: Scene) -> None:
    scene.group("g1")
    _limit(scene, group_quota=1)
    scene.do(_within(group.update, a_group("g1", policies=["p1"])))


def test_endpoints_and_the_addresses_that_they_use(scene: Scene) -> None:
    _limit(scene, endpoint_quota=2, used_address_quota=5)
    scene.endpoint("c1")
    scene.endpoint("c2")
    assert quotas.used(scene.view, DEFAULT) == {"endpoints": (2, 2), "addresses in use": (4, 5)}
    assert "may have 2 endpoints by its quota" in _refused(
        scene, endpoint.create, wanted("c3"), NOW
    )
    _limit(scene, endpoint_quota=3)
    text = "may have 5 addresses in use by its quota: it has 4, and this would make 6"
    assert text in _refused(scene, endpoint.create, wanted("c3"), NOW)
    scene.do(_within(address.allocate, AllocAddressRequest(network_id="n1.default"), NOW))
    reserve = AllocAddressRequest(network_id="n1.default")
    assert "it has 5" in _refused(scene, address.allocate, reserve, NOW)
    scene.do(_within(endpoint.create, wanted("c1"), NOW))  # the one that is there


def test_what_is_kept_counts_and_is_not_counted_twice(scene: Scene) -> None:
    keep = wanted("c1").model_copy(update={"keep": "shop/db-0"})
    scene.do(endpoint.create, keep, NOW)
    scene.delete_endpoint("c1")
    _limit(scene, used_address_quota=2)
    assert quotas.used(scene.view, DEFAULT) == {"addresses in use": (2, 2)}
    again = wanted("c2").model_copy(update={"keep": "shop/db-0"})
    scene.do(_within(endpoint.create, again, NOW))
    assert "it has 2" in _refused(scene, endpoint.create, wanted("c3"), NOW)


def test_interfaces_of_hosts_do_not_count(scene: Scene) -> None:
    scene.network("infra", "10.9.0.0/24", nw_type="infra")
    _limit(scene, endpoint_quota=1, used_address_quota=1)
    scene.do(_within(endpoint.create, wanted("h1", "infra"), NOW))
    assert quotas.used(scene.view, DEFAULT) == {"endpoints": (0, 1), "addresses in use": (0, 1)}


def test_tenants_have_quotas_of_their_own(scene: Scene) -> None:
    scene.tenant("blue")
    _limit(scene, policy_quota=1)
    scene.do(_within(policy.create, a_policy("p1", tenant_name="blue")))
    assert quotas.used(scene.view, TenantName("blue")) == {}


def test_hosts_hold_nothing_ahead_for_a_tenant_whose_endpoints_are_limited(scene: Scene) -> None:
    request = AddressBlocksRequest(host="h1", wanted={"n1.default": "3"})
    _limit(scene, endpoint_quota=10)
    reply = scene.do(address_blocks.renew, request, Renewal("lease", 60.0, NOW))
    assert (reply.renewed, reply.granted) == (True, ())


def test_a_client_of_the_original_changes_no_quota(scene: Scene) -> None:
    _limit(scene, policy_quota=1)
    text = "Cant change tenant parameters after its created"
    assert scene.refused(tenant.create, Tenant(tenant_name="default")) == text
    scene.do(tenant.replace, Tenant(tenant_name="default"))  # v2: to none
    assert quotas.used(scene.view, DEFAULT) == {}


@pytest.mark.parametrize("attribute", quotas.ATTRIBUTES)
def test_only_a_tenant_with_a_quota_of_what_it_uses_is_limited(
    scene: Scene, attribute: str
) -> None:
    _limit(scene, network_prefixes=["10.0.0.0/8"], address_quota=10_000)
    assert scene.view.limited_tenants == {}
    _limit(scene, **{attribute: 100})
    assert set(scene.view.limited_tenants) == {DEFAULT}
    _limit(scene, **{attribute: 0})
    assert scene.view.limited_tenants == {}
