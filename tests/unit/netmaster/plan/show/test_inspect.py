"""What inspect shows of tenants and endpoints; networks and groups are in their own modules."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ContivError, NotFound
from core.ids import EndpointKey
from netmaster.plan.show import inspect
from tests.unit.netmaster.scene import Scene


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.network("n2", "10.1.2.0/24", encap="vlan", pkt_tag=100)
    scene.group("g1")
    scene.endpoint("ep1", service_name="g1")
    return scene


def _edit(scene: Scene, key: str, **changed: object) -> None:
    record = scene.view.endpoints[EndpointKey(key)]
    scene.view.endpoints[EndpointKey(key)] = replace(record, **changed)  # type: ignore[arg-type]


def test_tenant(scene: Scene) -> None:
    oper = inspect.tenant(scene.view, "default")
    totals = {name: value for name, value in oper.items() if name.startswith("total") and value}
    assert totals == {"totalEPGs": 1, "totalEndpoints": 1, "totalNetworks": 2}
    first, second = oper["networks"]
    assert (first["allocatedIPAddresses"], first["numEndpoints"]) == ("10.1.1.1, 10.1.1.254", 1)
    assert (second["pktTag"], second["externalPktTag"]) == (100, 0)
    assert "networkTag" not in first
    (group,) = oper["endpointGroups"]
    assert set(group) == {"endpoints", "externalPktTag", "numEndpoints", "pktTag"}
    assert [endpoint["endpointID"] for endpoint in group["endpoints"]] == ["ep1"]


def test_what_is_not_there(scene: Scene) -> None:
    assert scene.refused(inspect.tenant, "nope") == "tenant not found"
    assert scene.refused(inspect.network, "default:nope") == "network not found"
    assert scene.refused(inspect.endpoint, "nope") == "endpoint not found"


def test_an_object_without_its_record_says_so(scene: Scene) -> None:
    scene.view.networks.clear()
    scene.view.groups.clear()
    assert scene.refused(inspect.network, "default:n1") == "key not found"
    assert scene.refused(inspect.group, "default:g1") == "key not found"


def test_an_endpoint_is_found_by_its_id(scene: Scene) -> None:
    oper = inspect.endpoint(scene.view, "ep1")
    assert (oper["key"], oper["endpointID"], oper["serviceName"]) == ("ep1", "ep1", "g1")
    assert oper["ipAddress"] == ["10.1.1.1", ""]


def test_the_best_fit_wins(scene: Scene) -> None:
    scene.endpoint("xep1")
    scene.endpoint("ep10")
    assert inspect.endpoint(scene.view, "ep1")["endpointID"] == "ep1"
    assert inspect.endpoint(scene.view, "xep")["endpointID"] == "xep1"
    assert inspect.endpoint(scene.view, "ep10")["endpointID"] == "ep10"
    assert inspect.endpoint(scene.view, "p10")["endpointID"] == "ep10"
    assert inspect.endpoint(scene.view, "cn-xep1")["endpointID"] == "xep1"
    scene.endpoint("ep11")
    assert scene.refused(inspect.endpoint, "cn-e") == "endpoint cn-e is ambiguous, name it in full"


def test_labels_are_shown_as_go_does_and_containers_are_found(scene: Scene) -> None:
    _edit(scene, "n1.default-ep1", labels={"b": "2", "a": "1"}, container_id="cid-1")
    oper = inspect.endpoint(scene.view, "cid-1")
    assert oper["labels"] == "map[a:1 b:2]"
    assert oper["containerID"] == "cid-1"


def test_an_endpoint_is_found_by_its_key_before_any_name(scene: Scene) -> None:
    scene.endpoint("ep2")
    _edit(scene, "n1.default-ep2", common_name="n1.default-ep1")
    assert inspect.endpoint_called(scene.view, "n1.default-ep1").key == "n1.default-ep1"
    assert inspect.endpoint_called(scene.view, "ep1").key == "n1.default-ep1"
    with pytest.raises(NotFound):
        inspect.endpoint_called(scene.view, "n1.default-ep1", set())


_PARTS = st.text("ab1", min_size=1, max_size=3)


@given(
    st.lists(st.tuples(st.sampled_from(["red", "blue"]), _PARTS, _PARTS), max_size=6),
    _PARTS,
)
def test_what_other_tenants_have_changes_no_answer(
    endpoints: list[tuple[str, str, str]], text: str
) -> None:
    def answer(seen: list[tuple[str, str, str]], tenants: set[str] | None) -> str:
        records = {
            EndpointKey(f"{number}"): SimpleNamespace(
                key=number, network=tenant, endpoint_id=name, container_id=name, common_name=common
            )
            for number, (tenant, name, common) in enumerate(endpoints)
            if (tenant, name, common) in seen
        }
        networks = {tenant: SimpleNamespace(tenant=tenant) for tenant in ("red", "blue")}
        view: Any = SimpleNamespace(endpoints=records, networks=networks)
        try:
            return str(inspect.find_endpoint(view, text, tenants).key)
        except ContivError as exc:
            return str(exc)

    own = [one for one in endpoints if one[0] == "blue"]
    assert answer(endpoints, {"blue"}) == answer(own, {"blue"}) == answer(own, None)
