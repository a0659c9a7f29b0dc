"""Addresses kept for a pod's or a machine's name: through restarts, against others, released."""

from typing import Any

import pytest

from contivmodel.rpc import AllocAddressRequest, ReleaseAddressRequest
from core.ids import NetworkId
from netmaster.plan.endpoints import address, cleanup, endpoint, kept
from netmaster.plan.objects import network
from netmaster.plan.show import ipam_check, kept_addresses
from netmaster.reservations import Reservations
from state.records import EndpointRecord, GrantOwner
from tests.unit.netmaster.clock import Clock
from tests.unit.netmaster.scene import NOW, Scene, wanted

NID = NetworkId("n1.default")
POD = {"io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "db-0"}


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254", ipv6_subnet="2001:db8::/64")
    return scene


def _asked(container: str, keep: str = "shop/db-0", **config: Any) -> Any:
    asked = wanted(container, **config)
    return asked.model_copy(update={"keep": keep, "labels": POD})


def _add(scene: Scene, container: str, keep: str = "shop/db-0", **config: Any) -> EndpointRecord:
    record = scene.do(endpoint.create, _asked(container, keep, **config), NOW)
    assert isinstance(record, EndpointRecord)
    return record


def _addresses(record: EndpointRecord) -> tuple[str, str, str]:
    return record.ip_address, record.ipv6_address, record.mac_address


def test_a_pod_has_its_addresses_again_wherever_it_comes_back(scene: Scene) -> None:
    first = _add(scene, "c1", host="h1")
    others = [scene.endpoint(f"x{number}") for number in range(2)]
    scene.delete_endpoint("c1")
    scene.delete_endpoint("x0")
    scene.reload()
    taken = {scene.endpoint(f"y{number}").ip_address for number in range(5)}
    assert first.ip_address not in taken | {others[1].ip_address}
    again = _add(scene, "c2", host="h2")
    assert _addresses(again) == _addresses(first)
    assert list(ipam_check.findings(scene.view, NOW)) == []


def test_a_second_pod_of_the_name_is_refused_with_who_has_it(scene: Scene) -> None:
    first = _add(scene, "c1", host="h1")
    refusal = scene.refused(endpoint.create, _asked("c2", host="h2"), NOW)
    assert f"ip address {first.ip_address} is kept for shop/db-0" in refusal
    assert "and pod shop/db-0 on host h1 has it: it is given again once that one" in refusal
    assert _add(scene, "c1", host="h1") == first  # the agent repeats its request
    removed = scene.do(cleanup.remove, [first])
    assert removed == 1
    assert _add(scene, "c2", host="h2").ip_address == first.ip_address


def test_nobody_else_is_given_what_is_kept(scene: Scene) -> None:
    first = _add(scene, "c1")
    scene.delete_endpoint("c1")
    text = f"ip address {first.ip_address} is not available: it is kept for shop/db-0"
    asked = wanted("c2", ip_address=first.ip_address)
    assert scene.refused(endpoint.create, asked, NOW) == text
    asked = _asked("c2", "shop/db-1", ip_address=first.ip_address)
    assert scene.refused(endpoint.create, asked, NOW) == text
    reserve = AllocAddressRequest(network_id=NID, preferred=first.ip_address)
    assert scene.refused(address.allocate, reserve, NOW) == text
    # nor does docker release it
    scene.do(address.release, ReleaseAddressRequest(network_id=NID, ipv4_address=first.ip_address))
    assert _add(scene, "c2").ip_address == first.ip_address


def test_an_address_that_a_pod_asks_for_comes_before_the_one_it_had(scene: Scene) -> None:
    first = _add(scene, "c1")
    scene.delete_endpoint("c1")
    again = _add(scene, "c2", ip_address="10.1.1.77")
    assert (again.ip_address, again.ipv6_address) == ("10.1.1.77", first.ipv6_address)
    assert scene.endpoint("c3").ip_address == first.ip_address
    scene.delete_endpoint("c2")
    assert _add(scene, "c4").ip_address == "10.1.1.77"


def test_a_mac_address_is_kept_with_it(scene: Scene) -> None:
    mac = "52:54:00:12:34:56"
    first = _add(scene, "c1", "shop/web@vm", mac_address=mac)
    scene.delete_endpoint("c1")
    refused = scene.refused(endpoint.create, wanted("c2", mac_address=mac), NOW)
    assert refused == f"MAC address {mac} is in use: it is kept for a pod that is away"
    assert _addresses(_add(scene, "c3", "shop/web@vm")) == _addresses(first)


def test_a_pod_of_another_group_gets_an_address_of_that_ones_pool(scene: Scene) -> None:
    scene.group("g1", ip_pool="10.1.1.100-10.1.1.110")
    first = _add(scene, "c1")
    scene.delete_endpoint("c1")
    second = _add(scene, "c2", service_name="g1")
    assert second.ip_address == "10.1.1.100"
    assert second.ipv6_address == first.ipv6_address
    assert scene.endpoint("c3").ip_address == first.ip_address


def test_networks_keep_for_themselves(scene: Scene) -> None:
    scene.network("n2", "10.2.0.0/24")
    first = _add(scene, "c1")
    other = scene.do(
        endpoint.create,
        wanted("c9", "n2").model_copy(update={"keep": "shop/db-0"}),
        NOW,
    )
    assert (first.ip_address, other.ip_address) == ("10.1.1.1", "10.2.0.1")


def test_what_is_kept_goes_with_its_network(scene: Scene) -> None:
    _add(scene, "c1")
    scene.delete_endpoint("c1")
    scene.do(network.delete, "default:n1")
    assert (scene.view.kept, scene.view.addresses) == ({}, {})


@pytest.mark.parametrize(
    "name", ["db-0", "shop/", "/db-0", "shop/db/0", "Shop/db", "shop/db-0@x", "a/" + "b" * 300]
)
def test_other_names_are_refused(name: str, scene: Scene) -> None:
    refused = scene.refused(endpoint.create, _asked("c1", name), NOW)
    assert refused.endswith("is no name that addresses can be kept for")


def test_what_does_not_come_back_in_time_is_released(scene: Scene) -> None:
    clock, first = Clock(), _add(scene, "c1")
    reservations = Reservations(clock, sticky_for=1000)
    assert not reservations.overdue(scene.view)
    clock.at += 5000
    assert not reservations.overdue(scene.view)  # it is there
    scene.delete_endpoint("c1")
    assert not reservations.overdue(scene.view)
    clock.at += 900
    assert not reservations.overdue(scene.view)
    _add(scene, "c2")
    reservations.overdue(scene.view)
    scene.delete_endpoint("c2")
    reservations.overdue(scene.view)
    clock.at += 999
    assert not reservations.overdue(scene.view)
    clock.at += 1
    overdue = reservations.overdue(scene.view)
    assert len(overdue) == 2
    assert scene.do(address.reclaim, overdue) == 2
    assert scene.endpoint("c3").ip_address == first.ip_address


def test_a_change_of_leader_loses_one_part_of_an_absence(scene: Scene) -> None:
    clock = Clock()
    _add(scene, "c1")
    scene.delete_endpoint("c1")
    leaders, seconds = 0, 0.0
    while True:
        leaders += 1
        reservations = Reservations(clock, sticky_for=1000)
        assert not reservations.overdue(scene.view)
        for _ in range(3):
            clock.at += 30
            seconds += 30
            scene.do(kept.store_absences, reservations.absences(scene.view))
        if reservations.overdue(scene.view):
            break
    assert 1000 <= seconds <= 1000 + leaders * 50 + 90


def test_what_is_kept_is_shown_and_released_by_name(scene: Scene) -> None:
    first = _add(scene, "c1", host="h1")
    ((key, held),) = kept_addresses.keys_of(scene.view).items()
    assert key == "default:n1:shop:db-0"
    shown = kept_addresses.shown(scene.view, held)
    assert (shown["ipAddress"], shown["host"]) == (first.ip_address, "h1")
    assert "pod shop/db-0 on host h1 has it" in scene.refused(kept.release, *held)
    scene.delete_endpoint("c1")
    assert kept_addresses.shown(scene.view, held)["host"] == ""
    scene.do(kept.release, *held)
    assert kept_addresses.keys_of(scene.view) == {}
    assert scene.endpoint("c2").ip_address == first.ip_address


def test_a_grant_of_a_pod_that_is_away_is_a_reservation_to_older_releases(scene: Scene) -> None:
    first = _add(scene, "c1")
    scene.delete_endpoint("c1")
    grant = scene.view.addresses[NID].grants[first.ip_address]
    assert (grant.owner, grant.kept_for) == (GrantOwner.RESERVATION, "shop/db-0")
