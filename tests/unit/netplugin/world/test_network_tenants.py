"""Whose a network is, where its id does not say it."""

from core.ids import NetworkId, TenantName
from netplugin.world.network_tenants import NetworkTenants

NID = NetworkId("n1.a.b")


def test_what_follows_the_last_dot_is_the_tenant_until_a_record_says_otherwise() -> None:
    tenants = NetworkTenants()
    assert tenants.split(NID) == ("n1.a", "b")
    tenants.put(NID, TenantName("a.b"))
    assert (tenants.split(NID), tenants.of(NID)) == (("n1", "a.b"), "a.b")
    tenants.put(NID, TenantName("b"))
    assert (tenants.split(NID), tenants.of(NID)) == (("n1.a", "b"), "b")


def test_only_what_an_id_does_not_say_is_remembered() -> None:
    tenants = NetworkTenants()
    tenants.put(NetworkId("n1.default"), TenantName("default"))
    tenants.put(NID, TenantName("a.b"))
    tenants.put(NID, TenantName("b"))
    assert tenants._exceptions == {}
