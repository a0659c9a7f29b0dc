"""A machine's addresses go from its source pod to its target pod, in one change, to no other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contivmodel.rpc import DeleteEndpointRequest
from core.errors import ContivError
from core.ids import NetworkId
from netmaster.plan.endpoints import endpoint
from netmaster.plan.endpoints.live_migration import Awaiting
from netmaster.plan.show import ipam_check
from state.records import EndpointRecord, GrantOwner
from tests.unit.netmaster.scene import NOW, Scene, wanted

MACHINE = "shop/db@vm"
MAC = "52:54:00:00:00:07"


def made() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254", ipv6_subnet="2001:db8::/64")
    return scene


@pytest.fixture
def scene() -> Scene:
    return made()


def asked(container: str, host: str, *, keep: str = MACHINE, **more: Any) -> Any:
    return wanted(container, host=host).model_copy(update={"keep": keep, **more})


def add(scene: Scene, container: str, host: str, **more: Any) -> EndpointRecord | Awaiting:
    reply = scene.do(endpoint.create, asked(container, host, **more), NOW)
    assert isinstance(reply, EndpointRecord | Awaiting)
    return reply


def source_pod(scene: Scene) -> EndpointRecord:
    found = add(scene, "source", "h1")
    assert isinstance(found, EndpointRecord)
    return found


def addresses(record: EndpointRecord) -> tuple[str, str, str]:
    return record.ip_address, record.ipv6_address, record.mac_address


def owners(scene: Scene) -> set[str]:
    grants = scene.view.addresses[NetworkId("n1.default")].grants.values()
    return {one.owner_id for one in grants if one.owner is GrantOwner.ENDPOINT}


def test_a_target_pod_is_told_its_addresses_and_has_no_endpoint_yet(scene: Scene) -> None:
    source = source_pod(scene)
    before = dict(scene.view.endpoints)
    reply = add(scene, "target", "h2", awaits_machine="true")
    assert isinstance(reply, Awaiting)
    assert reply.source == source
    assert addresses(reply.endpoint) == addresses(source)
    assert reply.endpoint.homing_host == "h2"
    assert dict(scene.view.endpoints) == before
    assert owners(scene) == {source.key}


def test_a_machine_that_runs_there_has_its_addresses_there_alone(scene: Scene) -> None:
    source = source_pod(scene)
    add(scene, "target", "h2", awaits_machine="true")
    moved = add(scene, "target", "h2", claim="true", replaces="source")
    assert isinstance(moved, EndpointRecord)
    assert addresses(moved) == addresses(source)
    assert set(scene.view.endpoints) == {moved.key}
    assert owners(scene) == {moved.key}
    scene.reload()
    assert list(ipam_check.findings(scene.view, NOW)) == []
    assert add(scene, "target", "h2", claim="true", replaces="source") == moved  # asked again
    assert "key not found" in scene.refused(endpoint.delete, _delete("source"))
    back = add(scene, "third", "h1", awaits_machine="true")
    assert isinstance(back, Awaiting)
    assert back.source == moved


def test_the_deletion_of_a_target_pod_leaves_the_source_its_addresses(scene: Scene) -> None:
    source = source_pod(scene)
    add(scene, "target", "h2", awaits_machine="true")
    assert "key not found" in scene.refused(endpoint.delete, _delete("target"))
    assert owners(scene) == {source.key}


def test_without_a_source_the_target_pod_has_its_endpoint_at_once(scene: Scene) -> None:
    source = source_pod(scene)
    scene.delete_endpoint("source")
    found = add(scene, "target", "h2", awaits_machine="true")
    assert isinstance(found, EndpointRecord)
    assert addresses(found) == addresses(source)


def test_the_source_may_be_gone_when_the_machine_runs(scene: Scene) -> None:
    source = source_pod(scene)
    add(scene, "target", "h2", awaits_machine="true")
    scene.delete_endpoint("source")
    moved = add(scene, "target", "h2", claim="true", replaces="source")
    assert isinstance(moved, EndpointRecord)
    assert addresses(moved) == addresses(source)


def test_a_pod_replaces_none_but_the_source_that_it_was_told(scene: Scene) -> None:
    source_pod(scene)
    scene.delete_endpoint("source")
    other = add(scene, "other", "h3")
    assert isinstance(other, EndpointRecord)
    refusal = scene.refused(
        endpoint.create, asked("target", "h2", claim="true", replaces="source"), NOW
    )
    assert f"ip address {other.ip_address} is kept for {MACHINE}" in refusal
    assert owners(scene) == {other.key}


@pytest.mark.parametrize("more", [{"awaits_machine": "true"}, {"replaces": "source"}])
def test_pods_that_are_no_machines_wait_for_the_first_one(scene: Scene, more: Any) -> None:
    add(scene, "source", "h1", keep="shop/db-0")
    refusal = scene.refused(endpoint.create, asked("target", "h2", keep="shop/db-0", **more), NOW)
    assert "it is given again once that one is gone" in refusal


def test_the_machine_keeps_an_own_mac_address(scene: Scene) -> None:
    first = wanted("source", host="h1", mac_address=MAC).model_copy(update={"keep": MACHINE})
    scene.do(endpoint.create, first, NOW)
    second = wanted("target", host="h2", mac_address=MAC).model_copy(
        update={"keep": MACHINE, "claim": "true", "replaces": "source"}
    )
    moved = scene.do(endpoint.create, second, NOW)
    assert isinstance(moved, EndpointRecord)
    assert moved.mac_address == MAC
    stranger = wanted("stranger", host="h2", mac_address=MAC).model_copy(
        update={"keep": "shop/other@vm", "replaces": "target"}
    )
    assert "is in use" in scene.refused(endpoint.create, stranger, NOW)


def test_a_machine_that_would_lose_its_address_does_not_migrate(scene: Scene) -> None:
    source = source_pod(scene)
    scene.group("g1", ip_pool="10.1.1.100-10.1.1.110")
    target = wanted("target", host="h2", service_name="g1").model_copy(
        update={"keep": MACHINE, "awaits_machine": "true"}
    )
    refusal = scene.refused(endpoint.create, target, NOW)
    assert f"ip address {source.ip_address} is not available" in refusal


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]), st.sampled_from(["add", "await", "runs", "delete"])
    ),
    max_size=20,
)


@given(CALLS)
def test_an_address_has_one_owner_whatever_the_order_of_calls(calls: list[tuple[str, str]]) -> None:
    scene = made()
    told: dict[str, str] = {}
    for container, call in calls:
        if call == "delete":
            _try(scene, endpoint.delete, _delete(container))
            told.pop(container, None)
            continue
        more = {
            "add": {},
            "await": {"awaits_machine": "true"},
            "runs": {"claim": "true", "replaces": told.get(container, "")},
        }[call]
        reply = _try(scene, endpoint.create, asked(container, "h1", **more), NOW)
        if isinstance(reply, Awaiting):
            told[container] = reply.source.endpoint_id
        assert len(owners(scene)) == len(scene.view.endpoints) <= 1
        assert list(ipam_check.findings(scene.view, NOW)) == []
    scene.reload()
    assert len(owners(scene)) == len(scene.view.endpoints) <= 1


def _delete(container: str) -> Any:
    return DeleteEndpointRequest(tenant_name="default", network_name="n1", endpoint_id=container)


def _try(scene: Scene, decide: Any, *arguments: Any) -> Any:
    try:
        return scene.do(decide, *arguments)
    except ContivError:
        return None
