"""VRF ids are lowest, stable, and kept by what a bridge can hold: text."""

from core.ids import TenantName
from netplugin.world.bridges.vrfs import MAX_VRF, VrfIds, external_ids, stored_vrfs


def test_a_tenant_has_the_lowest_id_that_is_free_and_keeps_it() -> None:
    ids = VrfIds({TenantName("b"): 2})
    assert [ids.of(TenantName(tenant)) for tenant in "abca"] == [1, 2, 3, 1]
    assert ids.retain({TenantName("b"), TenantName("c"), TenantName("x")}) == {"a"}
    assert ids.ids == {"b": 2, "c": 3}
    assert ids.of(TenantName("d")) == 1


def test_all_ids_may_be_in_use() -> None:
    ids = VrfIds({TenantName(f"t{number}"): number for number in range(1, MAX_VRF + 1)})
    assert ids.of(TenantName("late")) is None
    ids.retain({TenantName("t1")})
    assert ids.of(TenantName("late")) == 2


def test_only_readable_vrf_ids_are_taken_and_none_twice() -> None:
    ids = {
        "contiv-vrf-a": "1",
        "contiv-vrf-b": "1",
        "contiv-vrf-c": "255",
        "contiv-vrf-d": "256",
        "contiv-vrf-e": "0",
        "contiv-vrf-f": "x",
        "contiv-vrf-g": "٣",
        "contiv-vrf-h": "07",
        "other": "3",
    }
    assert stored_vrfs(ids) == {TenantName("a"): 1, TenantName("c"): 255}


def test_what_is_set_and_cleared_is_what_is_wanted() -> None:
    kept = {TenantName("a"): 1, TenantName("b"): 2, TenantName("c"): 3}
    wanted = {TenantName("a"): 1, TenantName("b"): 3, TenantName("d"): 2}
    ids = external_ids(kept, wanted)
    assert ids == {"contiv-vrf-b": "3", "contiv-vrf-c": None, "contiv-vrf-d": "2"}
    before = {"contiv-vrf-a": "1", "contiv-vrf-b": "2", "contiv-vrf-c": "3"}
    after = {name: value for name, value in {**before, **ids}.items() if value is not None}
    assert stored_vrfs(after) == wanted
