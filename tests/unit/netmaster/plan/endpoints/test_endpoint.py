"""Endpoints: which addresses they get, and that they give them back."""

import pytest

from contivmodel.rpc import UpdateEndpointRequest
from core.ids import EndpointKey, NetworkId
from netmaster.plan.endpoints import endpoint
from netmaster.plan.objects import group
from netmaster.stored import Write
from state.records import GrantOwner
from tests.unit.netmaster.scene import NOW, Scene, unwanted, wanted


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.network(
        "v6",
        "10.1.4.0/24",
        gateway="10.1.4.1",
        ipv6_subnet="2001:db8::/120",
        ipv6_gateway="2001:db8::1",
    )
    return scene


def test_an_endpoint_is_record_and_grant(scene: Scene) -> None:
    record = scene.endpoint("c1")
    assert record.key == "n1.default-c1"
    assert (record.ip_address, record.mac_address) == ("10.1.1.1", "02:02:0a:01:01:01")
    assert (record.group_id, record.group_key, record.ipv6_address) == (0, "", "")
    assert (record.homing_host, record.common_name) == ("h1", "cn-c1")
    grant = scene.view.addresses[NetworkId("n1.default")].grants["10.1.1.1"]
    assert (grant.owner, grant.owner_id) == (GrantOwner.ENDPOINT, "n1.default-c1")


def test_asking_again_answers_the_same(scene: Scene) -> None:
    record = scene.endpoint("c1")
    plan = endpoint.create(scene.view, wanted("c1", ip_address="10.1.1.9"), NOW)
    assert plan.writes == ()
    assert plan.reply is record


def test_a_group_gives_its_id(scene: Scene) -> None:
    scene.group("g1")
    scene.group("g2")
    record = scene.endpoint("c1", service_name="g2")
    assert (record.group_id, record.group_key, record.service_name) == (2, "g2:default", "g2")


def test_infra_endpoints_belong_to_no_group(scene: Scene) -> None:
    scene.network("contivh1", "10.9.0.0/24", nw_type="infra")
    scene.group("g1", "contivh1")
    record = scene.endpoint("h1", "contivh1", service_name="g1")
    assert (record.group_id, record.group_key) == (0, "")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"network_name": "nope"}, "key not found"),
        ({"tenant": "nope"}, "key not found"),
        ({"service_name": "nope"}, "key not found"),
        (
            {"container": ""},
            "the endpoint on network n1.default has no container id (ConfigEP.Container)",
        ),
        (
            {"ip_address": "10.7.7.7"},
            "hostIP 10.7.7.7 is exceeding beyond subnet 10.1.1.0/24, hostID 394759",
        ),
        ({"ip_address": "abc"}, "unable to convert hostIP abc to uint32"),
        ({"ip_address": "10.1.1.254"}, "ip address 10.1.1.254 is not available"),
        ({"ip_address": "10.1.1.0"}, "ip address 10.1.1.0 is not available"),
        ({"ip_address": "10.1.1.255"}, "ip address 10.1.1.255 is not available"),
    ],
)
def test_endpoints_that_cannot_be(scene: Scene, asked: dict[str, str], text: str) -> None:
    request = wanted(**({"container": "c1"} | asked))
    assert scene.refused(endpoint.create, request, NOW) == text


def test_a_requested_address_is_given_once(scene: Scene) -> None:
    assert scene.endpoint("c1", ip_address="10.1.1.150").ip_address == "10.1.1.150"
    refusal = scene.refused(endpoint.create, wanted("c2", ip_address="10.1.1.150"), NOW)
    held = "ip address 10.1.1.150 is not available: container cn-c1 on host h1 has it"
    assert refusal == held
    scene.delete_endpoint("c1")
    assert scene.endpoint("c2", ip_address="10.1.1.150").mac_address == "02:02:0a:01:01:96"


def test_a_requested_address_must_be_in_the_range_of_the_network(scene: Scene) -> None:
    scene.network("n2", "10.2.1.10-10.2.1.20/24")
    refusal = scene.refused(endpoint.create, wanted("c", "n2", ip_address="10.2.1.50"), NOW)
    assert refusal == "ip address 10.2.1.50 is not available"


def test_pools_are_kept_apart(scene: Scene) -> None:
    scene.group("g1")
    scene.group("gp", ip_pool="10.1.1.100-10.1.1.102")
    for asked in (
        wanted("c", service_name="gp", ip_address="10.1.1.110"),
        wanted("c", service_name="g1", ip_address="10.1.1.101"),
        wanted("c", ip_address="10.1.1.101"),
    ):
        refusal = scene.refused(endpoint.create, asked, NOW)
        assert refusal == f"ip address {asked.config.ip_address} is not available"
    assert scene.endpoint("c", service_name="gp", ip_address="10.1.1.101").group_id == 2


def test_exhaustion_of_a_subnet_and_of_a_pool(scene: Scene) -> None:
    scene.network("n2", "10.2.0.0/29", gateway="10.2.0.1")
    scene.group("gp", "n2", ip_pool="10.2.0.3-10.2.0.3")
    given = [scene.endpoint(f"c{number}", "n2").ip_address for number in range(4)]
    assert given == ["10.2.0.2", "10.2.0.4", "10.2.0.5", "10.2.0.6"]
    refusal = scene.refused(endpoint.create, wanted("c9", "n2"), NOW)
    assert refusal == "auto allocation failed - address exhaustion in subnet 10.2.0.0/29"
    assert scene.endpoint("p", "n2", service_name="gp").ip_address == "10.2.0.3"
    refusal = scene.refused(endpoint.create, wanted("c9", "n2", service_name="gp"), NOW)
    text = "auto allocation failed - address exhaustion in pool 10.2.0.3-10.2.0.3"
    assert refusal == text
    scene.delete_endpoint("c2", "n2")
    assert scene.endpoint("c9", "n2").ip_address == "10.2.0.5"


def test_both_families_come_and_go_together(scene: Scene) -> None:
    first = scene.endpoint("c1", "v6")
    assert (first.ip_address, first.ipv6_address) == ("10.1.4.2", "2001:db8::2")
    assert scene.lists("default:v6")[2] == 2
    scene.delete_endpoint("c1", "v6")
    assert scene.lists("default:v6")[2] == 0
    again = scene.endpoint("c2", "v6")
    assert (again.ip_address, again.ipv6_address) == ("10.1.4.2", "2001:db8::3")


def test_a_requested_ipv6_address(scene: Scene) -> None:
    asked = wanted("c1", "v6", ipv6_address="2001:0db8::0042")
    record = scene.do(endpoint.create, asked, NOW)
    assert record.ipv6_address == "2001:db8::42"
    for address, text in (
        (
            "2001:db8::42",
            "ip address 2001:db8::42 is not available: container cn-c1 on host h1 has it",
        ),
        ("2001:db8::1", "ip address 2001:db8::1 is not available"),
        ("2001:db8::", "ip address 2001:db8:: is not available"),
        ("2001:dead::1", "hostIP 2001:dead::1 is exceeding beyond subnet 2001:db8::/120"),
        ("abc", "abc is not an IPv6 address"),
    ):
        asked = wanted("c2", "v6", ipv6_address=address)
        assert scene.refused(endpoint.create, asked, NOW) == text
    assert scene.endpoint("c2", "v6").ipv6_address == "2001:db8::2"


def test_a_requested_ipv6_address_is_ignored_without_a_subnet(scene: Scene) -> None:
    assert scene.endpoint("c1", ipv6_address="2001:db8::42").ipv6_address == ""


def test_exhaustion_of_ipv6_takes_no_ipv4_address(scene: Scene) -> None:
    scene.network("tiny", "10.5.0.0/24", ipv6_subnet="2001:db9::/127")
    scene.endpoint("c1", "tiny")
    refusal = scene.refused(endpoint.create, wanted("c2", "tiny"), NOW)
    assert refusal == "Reached MaxHosts (1). Cannot allocate more hosts"
    assert scene.lists("default:tiny")[0] == "10.5.0.1"


def test_ipv6_goes_on_behind_the_newest_after_a_restart(scene: Scene) -> None:
    for container in ("c1", "c2", "c3"):
        scene.endpoint(container, "v6")
    scene.delete_endpoint("c1", "v6")
    scene.reload()
    assert scene.endpoint("c4", "v6").ipv6_address == "2001:db8::5"


def test_a_reservation_becomes_the_endpoints(scene: Scene) -> None:
    assert scene.allocate() == "10.1.1.1/24"
    record = scene.endpoint("c1", ip_address="10.1.1.1")
    assert record.ip_address == "10.1.1.1"
    assert scene.view.reservations == {}
    assert scene.lists()[2] == 1
    assert scene.release("10.1.1.1") == "success"
    assert scene.lists()[2] == 1
    scene.delete_endpoint("c1")
    assert scene.lists() == ("10.1.1.254", "10.1.1.1-10.1.1.253", 0)


def test_a_reservation_outside_the_groups_pool_does_not_become_its_endpoints(
    scene: Scene,
) -> None:
    scene.group("gp", ip_pool="10.1.1.100-10.1.1.102")
    scene.allocate(preferred="10.1.1.7")
    asked = wanted("c", service_name="gp", ip_address="10.1.1.7")
    assert scene.refused(endpoint.create, asked, NOW) == "ip address 10.1.1.7 is not available"


def test_delete_of_what_is_not_there(scene: Scene) -> None:
    scene.endpoint("c1")
    scene.delete_endpoint("c1")
    assert scene.refused(endpoint.delete, unwanted("c1")) == "key not found"
    assert scene.refused(endpoint.delete, unwanted("c1", "nope")) == "key not found"


def test_ids_that_run_together_are_told_apart(scene: Scene) -> None:
    scene.tenant("default-x")
    scene.network("n1", tenant_name="default-x")
    scene.endpoint("x-c1")
    refusal = scene.refused(endpoint.create, wanted("c1", tenant="default-x"), NOW)
    assert refusal == "endpoint id n1.default-x-c1 is in use on network n1.default"
    asked = unwanted("c1").model_copy(update={"tenant_name": "default-x"})
    assert scene.refused(endpoint.delete, asked) == "key not found"


def test_an_address_of_another_owner_is_not_released(scene: Scene) -> None:
    record = scene.endpoint("c1")
    grants = scene.view.addresses[NetworkId("n1.default")].grants
    other = grants["10.1.1.254"]
    scene.view.apply([Write("/contiv.io/ipam/n1.default/10.1.1.1", other, new=False)])
    assert [write.key for write in endpoint.remove(scene.view, record).writes] == [
        "/contiv.io/state/eps/n1.default-c1"
    ]


def test_odd_container_ids(scene: Scene) -> None:
    record = scene.endpoint("a.b:c/d")
    assert record.key == "n1.default-a.b:c/d"
    assert EndpointKey(record.key) in scene.view.endpoints
    scene.delete_endpoint("a.b:c/d")


def test_a_deleted_group_takes_no_endpoints(scene: Scene) -> None:
    scene.group("g1")
    scene.do(group.delete, "default:g1")
    refusal = scene.refused(endpoint.create, wanted("late", service_name="g1"), NOW)
    assert refusal == "key not found"


def test_a_container_that_started_has_labels_and_an_id(scene: Scene) -> None:
    scene.endpoint("c1")
    assert scene.start("c1", {"app": "web"}, ip_address="as sent", common_name="pod") == "as sent"
    record = scene.view.endpoints[EndpointKey("n1.default-c1")]
    assert (record.labels, record.container_id, record.common_name) == (
        {"app": "web"},
        "id-c1",
        "pod",
    )
    scene.start("c1", {"tier": "front"}, common_name="pod")
    record = scene.view.endpoints[EndpointKey("n1.default-c1")]
    assert record.labels == {"app": "web", "tier": "front"}


def test_a_group_may_stand_for_its_network(scene: Scene) -> None:
    scene.group("g1")
    scene.endpoint("c1", service_name="g1")
    scene.start("c1", {}, network="g1")
    assert scene.view.endpoints[EndpointKey("n1.default-c1")].container_id == "id-c1"


def test_a_dead_container_serves_nothing_on_any_network(scene: Scene) -> None:
    scene.endpoint("c1")
    scene.endpoint("c1", "v6")
    scene.start("c1", {"app": "web"})
    scene.start("c1", {"app": "web"}, network="v6")
    assert len(scene.view.labelled["app", "web"]) == 2
    assert scene.die("c1") == ""
    assert scene.view.labelled == {}
    assert scene.die("c1") is None
    assert scene.view.endpoints[EndpointKey("n1.default-c1")].labels == {"app": "web"}


def test_an_unknown_event_changes_nothing(scene: Scene) -> None:
    plan = endpoint.update(scene.view, UpdateEndpointRequest(event="x", ip_address="1.2.3.4"))
    assert (plan.writes, plan.reply) == ((), "1.2.3.4")


NO_CONTAINER = (
    "invalid ProviderID from providerInfo:{&{10.1.1.2  map[app:web] default n1 []  n1.default-c1}}"
)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"event": "start", "network": "nope"}, "key not found"),
        ({"event": "start", "endpoint_id": "nope"}, "key not found"),
        ({"event": "start", "container_id": ""}, NO_CONTAINER),
        (
            {"event": "die", "container_id": ""},
            "invalid containerID in UpdateEndpointRequest:(nil)",
        ),
    ],
)
def test_refused_updates(scene: Scene, asked: dict[str, str], text: str) -> None:
    scene.endpoint("c1")
    request = UpdateEndpointRequest(
        tenant="default",
        network="n1",
        endpoint_id="c1",
        container_id="id",
        ip_address="10.1.1.2",
        labels={"app": "web"},
    )
    assert scene.refused(endpoint.update, request.model_copy(update=asked)) == text


def relabel(scene: Scene, **labels: str) -> None:
    request = UpdateEndpointRequest(
        event="labels", tenant="default", network="n1", endpoint_id="c1", labels=labels
    )
    scene.do(endpoint.update, request)


def test_an_endpoint_may_be_created_with_labels(scene: Scene) -> None:
    request = wanted("c1").model_copy(update={"labels": {"app": "web"}})
    record = scene.do(endpoint.create, request, NOW)
    assert (record.labels, record.container_id) == ({"app": "web"}, "")
    assert scene.endpoint("c2").labels is None
    many = wanted("c3").model_copy(update={"labels": {str(n): "" for n in range(1025)}})
    assert "1024 of 65536 bytes are allowed" in scene.refused(endpoint.create, many, NOW)


def test_labels_are_replaced(scene: Scene) -> None:
    scene.endpoint("c1")
    relabel(scene, app="web", tier="front")
    relabel(scene, app="db")
    one = scene.view.endpoints[EndpointKey("n1.default-c1")]
    assert (one.labels, one.container_id) == ({"app": "db"}, "")
    request = UpdateEndpointRequest(
        event="labels", tenant="default", network="n1", endpoint_id="c1", labels={"app": "db"}
    )
    assert endpoint.update(scene.view, request).writes == ()
    assert endpoint.hosts_of_update(scene.view, request) == {"h1"}
    relabel(scene)
    assert scene.view.endpoints[EndpointKey("n1.default-c1")].labels == {}
    lost = request.model_copy(update={"endpoint_id": "nope"})
    assert scene.refused(endpoint.update, lost) == "key not found"
    assert endpoint.hosts_of_update(scene.view, lost) == frozenset()
    many = request.model_copy(update={"labels": {str(n): "" for n in range(1025)}})
    assert "1024 of 65536 bytes are allowed" in scene.refused(endpoint.update, many)
