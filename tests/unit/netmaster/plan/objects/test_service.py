"""Services: what is accepted, which address they get, who serves them."""

from typing import Any

import pytest

from core.ids import NetworkId, ServiceKey
from netmaster.plan.objects import network, service
from netmaster.plan.show import inspect, service_states
from state.records import GrantOwner
from tests.unit.netmaster.scene import Scene, a_service

PORTS = "Invalid Port maping . Port format is - Port:TargetPort:Protocol"


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.network("n2", "10.1.2.0/24")
    return scene


def vips(scene: Scene) -> dict[tuple[str, str], str]:
    """Return network and address -> service of every virtual address."""
    return {
        (nid, address): grant.owner_id
        for nid, addresses in scene.view.addresses.items()
        for address, grant in addresses.grants.items()
        if grant.owner is GrantOwner.VIP
    }


def test_a_service_gets_the_lowest_free_address(scene: Scene) -> None:
    scene.endpoint("c1")
    created = scene.service_lb("s1")
    assert created.links.network.key == "default:n1"
    assert created.ip_address == ""
    assert vips(scene) == {("n1.default", "10.1.1.2"): "s1:default"}
    assert scene.view.services[ServiceKey("s1:default")].ip_address == "10.1.1.2"
    assert scene.endpoint("c2").ip_address == "10.1.1.3"


def test_links_show_it_at_its_tenant_and_its_network(scene: Scene) -> None:
    scene.service_lb("s1")
    for kind, key in (("tenant", "default"), ("network", "default:n1")):
        found: Any = scene.view.read(kind, key)
        assert list(found.link_sets.servicelbs) == ["default:s1"]


@pytest.mark.parametrize("wanted", ["10.1.1.1", "10.1.1.50", "10.1.1.254", "10.1.1.0"])
def test_an_address_that_is_held_is_refused(scene: Scene, wanted: str) -> None:
    scene.endpoint("c1")
    scene.service_lb("s1", ip_address="10.1.1.50")
    asked = a_service("s2", ip_address=wanted)
    refusal = scene.refused(service.create, asked)
    by = ": container cn-c1 on host h1 has it" if wanted == "10.1.1.1" else ""
    assert refusal == f"ip address {wanted} is not available{by}"


def test_an_address_of_a_pool_is_refused(scene: Scene) -> None:
    scene.group("gp", ip_pool="10.1.1.100-10.1.1.102")
    asked = a_service("s1", ip_address="10.1.1.101")
    assert scene.refused(service.create, asked) == "ip address 10.1.1.101 is not available"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"service_name": ""}, "Invalid service name"),
        ({"selectors": []}, "Invalid selector options"),
        ({"ports": []}, PORTS),
        ({"ports": ["80"]}, PORTS),
        ({"ports": ["80:8080"]}, PORTS),
        ({"ports": ["80:8080:TCP:x"]}, PORTS),
        ({"ports": ["80:8080:TCP", "443:8443:SCTP"]}, PORTS),
        ({"ports": ["0:80:TCP"]}, PORTS),
        ({"ports": ["80:65536:UDP"]}, PORTS),
        ({"ports": ["a:b:TCP"]}, PORTS),
        ({"ports": ["٨٠:80:TCP"]}, PORTS),
        ({"tenant_name": "nope"}, "Tenant nope not found"),
        ({"network_name": "nope"}, "Network nope not found"),
        ({"selectors": ["a"]}, "Invalid selector a. selector format is key1=value1"),
        ({"selectors": ["a=b", "a=b=c"]}, "Invalid selector a=b=c. selector format is key1=value1"),
        (
            {"ip_address": "10.2.1.1"},
            "hostIP 10.2.1.1 is exceeding beyond subnet 10.1.1.0/24, hostID 65537",
        ),
    ],
)
def test_refusals(scene: Scene, asked: dict[str, Any], text: str) -> None:
    wanted = a_service("s1").model_copy(update=asked)
    assert scene.refused(service.create, wanted) == text
    assert vips(scene) == {}


def test_a_service_has_an_address_of_ipv6(scene: Scene) -> None:
    six = {"ipv6_subnet": "fd00:6::/64", "ipv6_gateway": "fd00:6::1"}
    scene.network("six", "", **six)
    scene.network("both", "10.1.3.0/24", **six | {"ipv6_subnet": "fd00:7::/64", "ipv6_gateway": ""})
    scene.service_lb("s1", network_name="six", ip_address="fd00:6::00c8")
    scene.service_lb("s2", network_name="both", ip_address="fd00:7::c8")
    scene.service_lb("s3", network_name="both")
    assert vips(scene) == {
        ("six.default", "fd00:6::c8"): "s1:default",
        ("both.default", "fd00:7::c8"): "s2:default",
        ("both.default", "10.1.3.1"): "s3:default",
    }
    again = a_service("s1", network_name="six", ip_address="FD00:6::C8")
    scene.do(service.update, again)
    assert scene.view.services[ServiceKey("s1:default")].ip_address == "fd00:6::c8"
    # as the format has it, an address of twelve groups
    malformed = a_service("s1", network_name="six", ip_address="1:2:3:4:5:6::7:8:9:a:b:c")
    assert "is not an IPv6 address" in scene.refused(service.update, malformed)
    for network_name, address in (("n1", "fd00:6::c9"), ("six", "10.1.3.9")):
        asked = a_service("s4", network_name=network_name, ip_address=address)
        assert "IPv6" in scene.refused(service.create, asked)


def test_an_update_keeps_the_address(scene: Scene) -> None:
    scene.service_lb("s1", ip_address="10.1.1.9")
    assert service.update(scene.view, a_service("s1", ip_address="10.1.1.9")).writes == ()
    scene.service_lb("s1", ports=["81:81:udp"])
    record = scene.view.services[ServiceKey("s1:default")]
    assert (record.ip_address, record.ports) == ("10.1.1.9", ("81:81:udp",))
    assert vips(scene) == {("n1.default", "10.1.1.9"): "s1:default"}


def test_an_update_moves_to_another_address_or_network(scene: Scene) -> None:
    scene.service_lb("s1")
    scene.service_lb("s1", ip_address="10.1.1.7")
    assert vips(scene) == {("n1.default", "10.1.1.7"): "s1:default"}
    scene.service_lb("s1", "n2")
    assert vips(scene) == {("n2.default", "10.1.2.1"): "s1:default"}
    first: Any = scene.view.read("network", "default:n1")
    second: Any = scene.view.read("network", "default:n2")
    assert list(first.link_sets.servicelbs) == []
    assert list(second.link_sets.servicelbs) == ["default:s1"]


def test_a_refused_update_changes_nothing(scene: Scene) -> None:
    scene.service_lb("s1")
    outside = a_service("s1", "n2", ip_address="10.1.1.1")
    assert "exceeding beyond subnet 10.1.2.0/24" in scene.refused(service.update, outside)
    assert vips(scene) == {("n1.default", "10.1.1.1"): "s1:default"}
    assert scene.refused(service.update, a_service("s9")) == "serviceLB not found"


def test_a_network_with_services_stays(scene: Scene) -> None:
    scene.service_lb("s1")
    scene.service_lb("s2")
    text = "cannot delete n1 has 2 services "
    assert scene.refused(network.delete, "default:n1") == text
    scene.do(service.delete, "default:s1")
    scene.do(service.delete, "default:s2")
    scene.do(network.delete, "default:n1")
    assert NetworkId("n1.default") not in scene.view.addresses


def test_a_deleted_service_gives_its_address_back(scene: Scene) -> None:
    scene.service_lb("s1")
    assert scene.do(service.delete, "default:s1") == "default:s1"
    assert vips(scene) == {}
    assert scene.refused(service.delete, "default:s1") == "serviceLB not found"
    assert scene.endpoint("c1").ip_address == "10.1.1.1"


def test_inspection_shows_who_serves(scene: Scene) -> None:
    scene.service_lb("s1")
    for container, labels in (
        ("c1", {"app": "web", "tier": "front"}),
        ("c2", {"app": "db"}),
        ("c3", {"app": "web"}),
    ):
        scene.endpoint(container)
        scene.start(container, labels)
    oper = inspect.service(scene.view, "default:s1")
    assert (oper["serviceVip"], oper["numProviders"]) == ("10.1.1.1", 2)
    assert [(one["endpointID"], one["serviceName"]) for one in oper["providers"]] == [
        ("c1", "s1"),
        ("c3", "s1"),
    ]
    assert scene.refused(inspect.service, "default:nope") == "serviceLB not found"


def test_services_are_shown_with_their_providers(scene: Scene) -> None:
    scene.endpoint("c1")
    scene.start("c1", {"app": "web"})
    scene.service_lb("s2")
    scene.service_lb("s1", "n2")
    shown = service_states.all_services(scene.view)
    assert [one["id"] for one in shown] == ["s1:default", "s2:default"]
    assert list(shown[0]) == [
        "id",
        "servicename",
        "tenantname",
        "subnet",
        "ports",
        "selectors",
        "ipaddress",
        "providers",
    ]
    assert shown[0]["providers"] == {
        "10.1.1.1:default": {
            "IPAddress": "10.1.1.1",
            "ContainerID": "id-c1",
            "Labels": {"app": "web"},
            "Tenant": "default",
            "Network": "n1",
            "Services": ["s1:default", "s2:default"],
            "Container": "",
            "EpIDKey": "n1.default-c1",
        }
    }
    assert service_states.one_service(scene.view, "s2:default") == shown[1:]
    assert scene.refused(service_states.one_service, "s9:default") == "service s9:default not found"
