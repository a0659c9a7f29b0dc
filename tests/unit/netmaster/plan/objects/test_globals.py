"""The global object: defaults, flags, what may change while networks exist."""

from typing import Any

import pytest

from contivmodel.objects import Global
from core import keys
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import network
from netmaster.plan.objects.globals import StartupFlags
from netmaster.plan.show import inspect
from netmaster.view import View
from state.records import GlobalRecord, TagRangesRecord
from tests.unit.netmaster.scene import Scene, a_network


@pytest.fixture
def scene() -> Scene:
    return Scene()


def _asked(**changed: str) -> Global:
    stored = Global(
        arp_mode="proxy",
        fwd_mode="routing",
        name="global",
        network_infra_type="default",
        pvt_subnet="172.19.0.0/16",
        vlans="1-4094",
        vxlans="1-10000",
    )
    return stored.model_copy(update=changed)


def _stored(scene: Scene) -> Global:
    stored = scene.view.read("global", "global")
    assert isinstance(stored, Global)
    return stored


def _two_networks(scene: Scene) -> None:
    scene.network("n1")
    scene.network("n2", "10.2.0.0/24", encap="vlan", pkt_tag=50)


def test_the_first_leader_makes_the_defaults(scene: Scene) -> None:
    assert _stored(scene) == _asked(key="global")
    assert scene.view.global_record == GlobalRecord(
        infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
    )
    assert scene.view.tag_ranges == TagRangesRecord(vlans="1-4094", vxlans="1-10000")
    assert set(scene.view.unread) == {
        keys.VLAN_RESOURCE,
        keys.VLAN_RESOURCE_OPER,
        keys.VXLAN_RESOURCE,
        keys.VXLAN_RESOURCE_OPER,
        keys.GLOBAL_OPER,
    }


def test_the_next_leader_changes_nothing(scene: Scene) -> None:
    scene.do(settings.update, _asked(vlans="1-100", vxlans="1-500", arp_mode="flood"))
    plan = settings.startup(scene.view, StartupFlags("routing", "default"))
    assert plan.writes == ()
    assert _stored(scene).vlans == "1-100"
    assert _stored(scene).arp_mode == "flood"


def test_flags_set_forward_mode_and_infra_while_no_network_exists(scene: Scene) -> None:
    scene.do(settings.startup, StartupFlags("bridge", "aci"))
    assert (_stored(scene).fwd_mode, _stored(scene).network_infra_type) == ("bridge", "aci")
    assert scene.view.global_record is not None
    assert scene.view.global_record.fwd_mode == "bridge"
    scene.network("n1")
    scene.do(settings.startup, StartupFlags("routing", "default"))
    assert (_stored(scene).fwd_mode, _stored(scene).network_infra_type) == ("bridge", "aci")
    assert scene.view.global_record.fwd_mode == "bridge"


def test_flags_that_say_nothing_change_nothing(scene: Scene) -> None:
    scene.do(settings.startup, StartupFlags("", ""))
    assert _stored(scene) == _asked(key="global")


def test_records_that_fell_behind_are_written_again(scene: Scene) -> None:
    scene.view.global_record = None
    del scene.store[keys.GLOBAL_CONFIG]
    scene.do(settings.startup, StartupFlags("routing", "default"))
    assert keys.GLOBAL_CONFIG in scene.store


def test_update_replies_what_is_stored(scene: Scene) -> None:
    asked = _asked(vlans="100-200", vxlans="20000-30000", pvt_subnet="172.20.0.0/16")
    assert (
        scene.do(settings.update, asked)
        == _stored(scene)
        == asked.model_copy(update={"key": "global"})
    )
    assert scene.view.tag_ranges == TagRangesRecord(vlans="100-200", vxlans="20000-30000")
    scene.network("n1", encap="vlan")
    assert inspect.global_(scene.view, "global") == {
        "freeVXLANsStart": 19999,
        "numNetworks": 1,
        "vlansInUse": "100",
        "vxlansInUse": "",
    }


def test_the_same_again_writes_nothing(scene: Scene) -> None:
    assert settings.update(scene.view, _asked()).writes == ()
    assert settings.create(scene.view, _asked()).writes == ()


def test_an_empty_forward_mode_keeps_the_stored_one(scene: Scene) -> None:
    assert scene.do(settings.update, _asked(fwd_mode="")).fwd_mode == "routing"
    scene.network("n1")


@pytest.mark.parametrize("field", ["arp_mode", "network_infra_type"])
def test_other_empty_modes_show_empty_and_change_no_record(scene: Scene, field: str) -> None:
    before = scene.view.global_record
    assert getattr(scene.do(settings.update, _asked(**{field: ""})), field) == ""
    assert scene.view.global_record == before


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"vlans": "1-5000"}, "invalid range 1-5000, vlan values exceed 4095 max allowed"),
        ({"vlans": "0-4094"}, "invalid range 0-4094, values less than 1"),
        ({"vxlans": "5-1"}, "invalid range 5-1, min is greater than max"),
        ({"vxlans": "1-20000"}, "does not allow vxlan range to exceed 16000 range 1-20000"),
    ],
)
def test_ranges_that_cannot_be(scene: Scene, changed: dict[str, str], text: str) -> None:
    assert scene.refused(settings.update, _asked(**changed)) == text
    assert _stored(scene) == _asked(key="global")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"fwd_mode": "bridge"},
            "Unable to update forwarding mode due to existing 1 vlans and 1 vxlans",
        ),
        (
            {"pvt_subnet": "172.30.0.0/16"},
            "Unable to update private subnet due to existing 1 vlans and 1 vxlans",
        ),
        ({"vlans": "100-200"}, "cannot update the vlan range due to existing vlans 50"),
        ({"vlans": "0-40"}, "cannot update the vlan range due to existing vlans 50"),
        ({"vxlans": "100-200"}, "cannot update the vxlan range due to existing vxlans 1"),
    ],
)
def test_what_networks_depend_on_stays(scene: Scene, changed: dict[str, str], text: str) -> None:
    _two_networks(scene)
    assert scene.refused(settings.update, _asked(**changed)) == text


@pytest.mark.parametrize(
    "changed",
    [
        {"arp_mode": "flood"},
        {"network_infra_type": "aci"},
        {"vlans": "50-50"},
        {"vxlans": "1-200"},
    ],
)
def test_what_no_network_depends_on_may_change(scene: Scene, changed: dict[str, Any]) -> None:
    _two_networks(scene)
    scene.do(settings.update, _asked(**changed))


def test_one_kind_of_network_is_named_alone(scene: Scene) -> None:
    scene.network("n1")
    refusal = scene.refused(settings.update, _asked(fwd_mode="bridge"))
    assert refusal == "Unable to update forwarding mode due to existing 1 vxlans"
    scene.do(network.delete, "default:n1")
    scene.do(settings.update, _asked(fwd_mode="bridge"))


def test_a_store_without_a_private_subnet_takes_the_default(scene: Scene) -> None:
    _two_networks(scene)
    scene.view.objects["global"]["global"] = _asked(key="global", pvt_subnet="")
    settings.update(scene.view, _asked())
    refusal = scene.refused(settings.update, _asked(pvt_subnet="172.20.0.0/16"))
    assert refusal.startswith("Unable to update private subnet")


def test_delete_and_create_again(scene: Scene) -> None:
    _two_networks(scene)
    assert scene.do(settings.delete, "global") == "global"
    assert scene.view.unread == {}
    assert scene.refused(settings.delete, "global") == "global not found"
    assert scene.refused(settings.update, _asked()) == "global not found"
    assert scene.refused(inspect.global_, "global") == "global not found"
    refusal = scene.refused(network.create, a_network("n3", "10.3.0.0/24"))
    assert refusal.startswith("Global configuration is not ready")
    refusal = scene.refused(settings.create, _asked(vlans="100-200"))
    assert refusal == "cannot update the vlan range due to existing vlans 50"
    scene.do(settings.create, _asked())
    # the original forgets the tags in use here
    assert inspect.global_(scene.view, "global")["vlansInUse"] == "50"
    refusal = scene.refused(
        network.create, a_network("n3", "10.3.0.0/24", encap="vlan", pkt_tag=50)
    )
    assert refusal == "requested vlan not available - vlan:50"


def test_a_forward_mode_that_was_never_set_can_be_set(scene: Scene) -> None:
    _two_networks(scene)
    scene.do(settings.delete, "global")
    scene.do(settings.create, _asked(fwd_mode=""))
    assert scene.do(settings.update, _asked(fwd_mode="bridge")).fwd_mode == "bridge"


def test_without_a_flag_a_new_cluster_bridges() -> None:
    plan = settings.startup(View(), StartupFlags(fwd_mode="", infra_type="default"))
    assert isinstance(plan.reply, Global)
    assert plan.reply.fwd_mode == "bridge"
