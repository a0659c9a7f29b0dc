"""The view; that it equals the one read again from the store is checked by every `Scene` step."""

import pytest

from contivmodel.objects import Network
from contivmodel.wire import dumps
from core import keys
from core.errors import Invalid
from core.ids import HostLabel, NetworkName, TenantName, network_id
from netmaster.plan.endpoints import endpoint
from netmaster.plan.objects import network
from netmaster.stored import Write
from netmaster.view import View
from state.records import HostRecord
from tests.unit.netmaster.scene import NOW, Scene, a_network, shown, unwanted, wanted


def test_objects_show_their_link_sets_and_store_none() -> None:
    scene = Scene()
    scene.network("n1")
    scene.group("g1")
    shown = scene.view.read("network", "default:n1")
    assert isinstance(shown, Network)
    assert set(shown.link_sets.endpoint_groups) == {"default:g1"}
    stored = scene.view.objects["network"]["default:n1"]
    assert isinstance(stored, Network)
    assert stored.link_sets.endpoint_groups == {}
    assert scene.view.listed("network") == dumps([shown]) + b"\n"
    assert scene.view.read("network", "default:n2") is None


def test_a_copy_is_changed_alone() -> None:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.group("g1", ip_pool="10.1.1.20-10.1.1.30")
    scene.endpoint("c1")
    before = shown(scene.view)
    copied = scene.view.copy()
    assert shown(copied) == before
    copied.apply(network.create(copied, a_network("n2", "10.2.1.0/24")).writes)
    copied.apply(endpoint.create(copied, wanted("c2", "n2"), NOW).writes)
    copied.apply(endpoint.delete(copied, unwanted("c1")).writes)
    assert shown(scene.view) == before
    assert [record.name for record in copied.networks.values()] == ["n1", "n2"]
    assert copied.endpoints.keys().isdisjoint(scene.view.endpoints)


def test_a_copy_has_no_mapping_in_common() -> None:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.group("g1")
    scene.endpoint("c1", service_name="g1")
    scene.start("c1", {"app": "web"})
    copied = scene.view.copy()
    seen = 0
    for name, held in vars(scene.view).items():
        if isinstance(held, dict):
            assert getattr(copied, name) == held or name == "addresses"
            assert getattr(copied, name) is not held, name
            for key, member in held.items():
                if isinstance(member, dict):
                    assert getattr(copied, name)[key] is not member, name
                    seen += bool(member)
    assert seen > 6
    grants = scene.view.addresses[network_id(NetworkName("n1"), TenantName("default"))].grants
    assert grants
    assert all(of.grants is not grants for of in copied.addresses.values())
    copied.apply(endpoint.delete(copied, unwanted("c1")).writes)
    assert not copied.labelled
    assert scene.view.labelled


def test_sequence_numbers_grow_over_a_restart() -> None:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.endpoint("c1")
    before = scene.view.next_seq
    scene.reload()
    assert scene.view.next_seq == before == 3


def test_indexes_drop_what_is_removed() -> None:
    scene = Scene()
    scene.network("n1")
    scene.group("g1")
    scene.endpoint("c1", service_name="g1")
    scene.delete_endpoint("c1")
    view = scene.view
    assert not view.network_endpoints
    assert not view.group_endpoints
    assert not view.same_container_id
    assert not view.reservations


def test_keys_of_others_are_passed_over() -> None:
    view = View.load({keys.HOSTS + "h1": b"garbage", keys.LEADER_LOCK: b"here"})
    assert view.listed("tenant") == b"[]\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.NETWORKS + "n1.default", b"{}"),
        (keys.obj("tenant", "x"), b"not json"),
        (keys.GRANTS + "n1.default/10.1.1.1", b'{"owner":"nobody"}'),
    ],
)
def test_what_cannot_be_read_names_its_key(key: str, value: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        View.load({key: value})
    assert key in str(caught.value)


def test_a_record_that_makes_no_sense_names_its_key() -> None:
    scene = Scene()
    scene.network("n1")
    key = keys.NETWORKS + "n1.default"
    scene.store[key] = scene.store[key].replace(b'"10.1.1.0"', b'"10.1.1"', 1)
    with pytest.raises(Invalid) as caught:
        scene.reload()
    assert key in str(caught.value)


def test_a_pool_without_its_network_is_refused() -> None:
    scene = Scene()
    scene.network("n1")
    scene.group("g1", ip_pool="10.1.1.5-10.1.1.9")
    del scene.store[keys.NETWORKS + "n1.default"]
    with pytest.raises(Invalid, match="its network n1 is missing"):
        scene.reload()


def test_records_of_others_are_not_applied() -> None:
    host = HostRecord(label=HostLabel("h1"), control_ip="", vtep_ip="", vxlan_port=4789)
    with pytest.raises(Invalid):
        View().apply([Write(keys.HOSTS + "h1", host, new=True)])


def test_an_endpoint_record_can_be_replaced() -> None:
    scene = Scene()
    scene.network("n1")
    scene.group("g1")
    record = scene.endpoint("c1")
    scene.view.apply([Write(keys.endpoint(record.key), record, new=False)])
    assert list(scene.view.network_endpoints[record.network]) == [record.key]
    scene.do(endpoint.delete, unwanted("c1"))
