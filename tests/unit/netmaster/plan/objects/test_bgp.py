"""BGP peerings: the object and its record, and what depends on them."""

import pytest

from contivmodel.objects import Global
from contivmodel.service_objects import Bgp
from netmaster.plan.objects import bgp
from netmaster.plan.objects import globals as settings
from tests.unit.netmaster.scene import Scene

PEERING = Bgp(
    hostname="h1",
    router_ip="50.1.1.1/24",
    as_number="65000",
    neighbor_as="65001",
    neighbor="50.1.1.2",
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def change(scene: Scene, **changed: str) -> Global:
    stored = scene.view.objects[Global.kind]["global"]
    assert isinstance(stored, Global)
    return stored.model_copy(update=changed)


def test_object_and_record_come_and_go_together(scene: Scene) -> None:
    assert scene.do(bgp.create, PEERING).key == "h1"
    assert scene.view.bgps["h1"].router_ip == "50.1.1.1/24"
    assert bgp.update(scene.view, PEERING).writes == ()
    scene.do(bgp.update, PEERING.model_copy(update={"as_number": "65009"}))
    assert scene.view.bgps["h1"].as_number == "65009"
    assert scene.do(bgp.delete, "h1") == "h1"
    assert scene.view.bgps == {}
    assert scene.refused(bgp.delete, "h1") == "Bgp not found"
    assert scene.refused(bgp.update, PEERING) == "Bgp not found"


def test_a_host_needs_a_name(scene: Scene) -> None:
    assert scene.refused(bgp.create, Bgp()) == "Invalid host name"


def test_there_is_none_in_an_aci_fabric(scene: Scene) -> None:
    scene.do(settings.update, change(scene, network_infra_type="aci"))
    assert scene.refused(bgp.create, PEERING) == "not supported in ACI fabric mode"


def test_routing_is_not_left_while_there_are_any(scene: Scene) -> None:
    scene.do(bgp.create, PEERING)
    bridge = change(scene, fwd_mode="bridge")
    assert scene.refused(settings.update, bridge) == "please delete existing Bgp configs"
    scene.do(bgp.delete, "h1")
    assert scene.do(settings.update, bridge).fwd_mode == "bridge"


WITH_GLOBAL = PEERING.model_copy(update={"router_ipv6": "2001:db8:50::1/64"})
BY_IPV6 = WITH_GLOBAL.model_copy(update={"neighbor": "", "neighbor_ipv6": "2001:db8:50::2"})


def test_addresses_of_ipv6_are_in_the_record_where_there_are_any(scene: Scene) -> None:
    scene.do(bgp.create, WITH_GLOBAL)
    assert scene.view.bgps["h1"].router_ipv6 == "2001:db8:50::1/64"
    scene.do(bgp.update, BY_IPV6)
    assert scene.view.bgps["h1"].neighbor_ipv6 == "2001:db8:50::2"
    alone = scene.do(bgp.update, BY_IPV6.model_copy(update={"router_ip": ""}))
    assert (alone.router_ip, alone.router_ipv6) == ("", "2001:db8:50::1/64")
    scene.do(bgp.update, PEERING)
    assert (scene.view.bgps["h1"].router_ipv6, scene.view.bgps["h1"].neighbor_ipv6) == ("", "")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"router_ipv6": ""}, "neighborIpv6 needs routerIpv6"),
        ({"neighbor": "50.1.1.2"}, "a host has one session: give neighbor or neighborIpv6"),
        ({"router_ipv6": "fe80::1/64"}, "no address that a router could reach"),
        ({"router_ipv6": "ff02::1/64"}, "no address that a router could reach"),
        ({"router_ipv6": "::/64"}, "no address that a router could reach"),
        ({"router_ipv6": "::ffff:3201:101/120"}, "no address that a router could reach"),
        ({"neighbor_ipv6": "2001:db8:51::2"}, "no other address of 2001:db8:50::/64"),
        ({"neighbor_ipv6": "2001:db8:50::1"}, "no other address of 2001:db8:50::/64"),
        ({"neighbor_ipv6": "", "router_ip": ""}, "a session by IPv4 needs routerip"),
        ({"router_ipv6": "1::2::3/64"}, "routerIpv6 string invalid format"),
        ({"neighbor_ipv6": "1::2::3"}, "neighborIpv6 string invalid format"),
    ],
)
def test_sessions_by_ipv6_that_cannot_be(scene: Scene, changed: dict[str, str], why: str) -> None:
    assert why in scene.refused(bgp.create, BY_IPV6.model_copy(update=changed))
    assert scene.view.bgps == {}
