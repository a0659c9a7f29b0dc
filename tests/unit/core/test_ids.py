"""Composite ids and the order of their parts."""

import pytest

from core import ids
from core.ids import GroupName, NetworkId, NetworkName, TenantName


def test_ids_are_composed_as_the_original_does() -> None:
    nid = ids.network_id(NetworkName("n1"), TenantName("blue"))
    assert nid == "n1.blue"
    assert ids.group_key(GroupName("web"), TenantName("blue")) == "web:blue"
    assert ids.object_key(TenantName("blue"), "n1") == "blue:n1"
    assert ids.endpoint_key(nid, "c1") == "n1.blue-c1"


@pytest.mark.parametrize(("network", "tenant"), [("n1", "blue"), ("a.b.c", "blue"), ("", "t")])
def test_a_network_id_is_taken_apart_at_its_last_dot(network: str, tenant: str) -> None:
    nid = ids.network_id(NetworkName(network), TenantName(tenant))
    assert ids.split_network_id(nid) == (network, tenant)


def test_a_network_id_has_a_dot() -> None:
    with pytest.raises(ValueError, match="'n1'"):
        ids.split_network_id(NetworkId("n1"))
