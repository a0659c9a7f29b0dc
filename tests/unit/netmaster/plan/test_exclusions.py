"""What networks and groups exclude: validation, grants, changes while addresses are in use."""

import pytest

from contivmodel.objects import EndpointGroup, Network
from contivmodel.rpc import AddressBlocksRequest, ConfigEP, CreateEndpointRequest
from core.ids import NetworkId
from netmaster.plan.endpoints import address_blocks, endpoint
from netmaster.plan.endpoints.address_blocks import Renewal
from netmaster.plan.objects import group, network, service
from netmaster.plan.show import address_use, inspect, ipam_check
from tests.unit.netmaster.scene import NOW, Scene, a_group, a_network, a_service, wanted

SIX = {"ipv6_subnet": "2001:db8::/120"}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def _change(scene: Scene, exclude: list[str]) -> Network:
    posted = scene.read("network", "default:n1").model_copy(update={"exclude": exclude})
    changed = scene.do(network.change, posted)
    assert isinstance(changed, Network)
    return changed


def _change_group(scene: Scene, exclude: list[str]) -> EndpointGroup:
    posted = scene.read("endpointGroup", "default:g1").model_copy(update={"exclude": exclude})
    changed = scene.do(group.change, posted)
    assert isinstance(changed, EndpointGroup)
    return changed


def _findings(scene: Scene) -> list[tuple[str, str]]:
    found = ipam_check.findings(scene.view, NOW)
    return [(one.address, one.owner) for one in found if one.kind == "excluded-address-in-use"]


def test_nobody_is_given_what_a_network_excludes(scene: Scene) -> None:
    scene.network("n1", exclude=["10.1.1.1-10.1.1.3", "10.1.1.5", "2001:db8::/126"], **SIX)
    first, second = scene.endpoint("c1"), scene.endpoint("c2")
    assert (first.ip_address, second.ip_address) == ("10.1.1.4", "10.1.1.6")
    assert (first.ipv6_address, second.ipv6_address) == ("2001:db8::4", "2001:db8::5")
    text = "ip address 10.1.1.5 is not available: network n1.default excludes it"
    assert scene.refused(endpoint.create, wanted("c3", ip_address="10.1.1.5"), NOW) == text
    text = "ip address 2001:db8::2 is not available: network n1.default excludes it"
    assert scene.refused(endpoint.create, wanted("c3", ipv6_address="2001:db8::2"), NOW) == text
    asked = a_service("s1", "n1", ip_address="10.1.1.5")
    assert scene.refused(service.create, asked).endswith("network n1.default excludes it")


def test_what_is_excluded_counts_neither_as_an_address_nor_as_free(scene: Scene) -> None:
    scene.network("n1", gateway="10.1.1.1", exclude=["10.1.1.1-10.1.1.10", "10.1.1.248/29"])
    scene.group("g1", ip_pool="10.1.1.20-10.1.1.29", exclude=["10.1.1.20-10.1.1.21"])
    scene.endpoint("c1")
    numbers = address_use.shown(scene.view, NetworkId("n1.default"))
    shown = inspect.network(scene.view, "default:n1")
    assert shown["availableIPAddresses"] == "10.1.1.12-10.1.1.19, 10.1.1.30-10.1.1.247"
    shown = inspect.group(scene.view, "default:g1")
    assert shown["availableIPAddresses"] == "10.1.1.22-10.1.1.29"
    assert (numbers["size"], numbers["free"]) == (254 - 10 - 7 - 2, 254 - 10 - 7 - 2 - 1)


def test_a_group_excludes_for_its_own_endpoints(scene: Scene) -> None:
    scene.network("n1", exclude=["10.1.1.1"], **SIX)
    scene.group("g1", exclude=["10.1.1.2-10.1.1.9", "2001:db8::1"])
    scene.group("g2", ip_pool="10.1.1.100-10.1.1.102", exclude=["10.1.1.100", "10.1.1.102"])
    assert scene.endpoint("c1", service_name="g1").ip_address == "10.1.1.10"
    assert scene.endpoint("c2", service_name="g1").ipv6_address == "2001:db8::3"
    assert scene.endpoint("c3").ip_address == "10.1.1.2"
    assert scene.endpoint("c4", service_name="g2").ip_address == "10.1.1.101"
    full = "auto allocation failed - address exhaustion in pool 10.1.1.100-10.1.1.102"
    assert scene.refused(endpoint.create, wanted("c5", service_name="g2"), NOW) == full
    asked = wanted("c5", service_name="g1", ip_address="10.1.1.9")
    text = "ip address 10.1.1.9 is not available: endpoint group g1:default excludes it"
    assert scene.refused(endpoint.create, asked, NOW) == text


def test_what_is_in_use_stays_so_and_is_told(scene: Scene) -> None:
    scene.network("n1", gateway="10.1.1.254", **SIX)
    scene.group("g1")
    held = [scene.endpoint(f"c{number}", service_name="g1") for number in range(3)]
    assert _findings(scene) == []
    _change(scene, ["10.1.1.1", "10.1.1.240/28"])
    _change_group(scene, ["10.1.1.2", "2001:db8::3"])
    assert _findings(scene) == [
        ("10.1.1.1", f"endpoint {held[0].key}"),
        ("10.1.1.2", f"endpoint {held[1].key}"),
        ("2001:db8::3", f"endpoint {held[2].key}"),
    ]
    assert scene.endpoint("c0").ip_address == "10.1.1.1"  # its host repeats the request
    scene.delete_endpoint("c0")
    assert scene.endpoint("c4").ip_address == "10.1.1.4"
    _change(scene, [])
    assert scene.endpoint("c5").ip_address == "10.1.1.1"


def test_a_running_pod_keeps_an_excluded_address_that_a_store_forgot(scene: Scene) -> None:
    scene.network("n1", exclude=["10.1.1.1"])
    asked = CreateEndpointRequest(
        tenant_name="default",
        network_name="n1",
        config=ConfigEP(container="c1", host="h1", ip_address="10.1.1.1"),
    )
    assert scene.refused(endpoint.create, asked, NOW).endswith("excludes it")
    scene.do(endpoint.create, asked.model_copy(update={"claim": "true"}), NOW)


def test_hosts_hold_no_excluded_addresses_ahead(scene: Scene) -> None:
    scene.network("n1", exclude=["10.1.1.1-10.1.1.4"], **SIX)
    request = AddressBlocksRequest(host="h1", wanted={"n1.default": "3"})
    reply = scene.do(address_blocks.renew, request, Renewal("lease", 60.0, NOW))
    assert [one.ipv4 for one in reply.granted] == ["10.1.1.5", "10.1.1.6", "10.1.1.7"]


@pytest.mark.parametrize(
    ("exclude", "why"),
    [
        (["10.1.2.1"], "is not in subnet 10.1.1.0/24"),
        (["10.1.1.250-10.1.2.1"], "is not in subnet 10.1.1.0/24"),
        (["10.1.1.9-10.1.1.1"], "ends before it begins"),
        (["10.1.1.1/28"], "has host bits"),
        (["10.1.1.0/33"], "does not fit"),
        (["10.1.1.010"], "is not an IPv4 address"),
        (["10.1.1.1-2001:db8::1"], "is no address"),
        (["2001:db8::1%eth0"], "has a scope id"),
        ([""], "is no address"),
        (["x" * 500], "is longer than any range"),
        (["2001:db8::1"], "has no subnet of IPv6"),
        (["10.1.1.1"] * 65, "at most 64 are allowed"),
    ],
)
def test_other_text_is_refused(exclude: list[str], why: str, scene: Scene) -> None:
    refused = scene.refused(network.create, a_network("n1", exclude=exclude))
    assert why in refused
    assert len(refused) < 300
    scene.network("n1")
    assert why in scene.refused(group.create, a_group("g1", exclude=exclude))
    stored = scene.read("network", "default:n1").model_copy(update={"exclude": exclude})
    assert why in scene.refused(network.change, stored)


def test_nothing_else_of_a_network_changes_with_it(scene: Scene) -> None:
    scene.network("n1", gateway="10.1.1.254")
    asked = a_network("n1", gateway="10.1.1.253", exclude=["10.1.1.1"])
    text = "Cant change network parameters after its created"
    assert scene.refused(network.update, asked) == text
    # v1: what a client of the original posts names nothing, and changes nothing
    _change(scene, ["10.1.1.1"])
    assert scene.refused(network.update, a_network("n1", gateway="10.1.1.254")) == text
    assert scene.read("network", "default:n1").exclude == ["10.1.1.1"]


def test_a_client_of_the_original_drops_nothing_of_a_group(scene: Scene) -> None:
    scene.network("n1")
    scene.policy("p1")
    scene.group("g1", exclude=["10.1.1.1"])
    scene.do(group.update, a_group("g1", policies=["p1"]))
    assert scene.endpoint("c1", service_name="g1").ip_address == "10.1.1.2"
    assert _change_group(scene, []).policies == ["p1"]
    assert scene.endpoint("c2", service_name="g1").ip_address == "10.1.1.1"
