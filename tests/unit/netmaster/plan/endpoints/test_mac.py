"""MAC addresses that are asked for: granted if they are free, else refused."""

import pytest

from core.addresses import ipv6, ipv6_text, mac6_text, with_mac6_of
from core.errors import Conflict, Invalid
from tests.unit.netmaster.scene import Scene


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    return scene


def test_a_free_address_is_granted(scene: Scene) -> None:
    assert scene.endpoint("c1", mac_address="02:AA:00:00:00:01").mac_address == "02:aa:00:00:00:01"
    assert scene.endpoint("c2").mac_address == "02:02:0a:01:01:02"


def test_the_derived_one_may_be_asked_for(scene: Scene) -> None:
    asked = scene.endpoint("c1", mac_address="02:02:0a:01:01:01")
    assert asked.mac_address == "02:02:0a:01:01:01"


def test_one_in_use_is_refused_and_nobody_told_whose_it_is(scene: Scene) -> None:
    scene.endpoint("c1", mac_address="02:aa:00:00:00:01")
    with pytest.raises(Conflict, match=r"^MAC address 02:aa:00:00:00:01 is in use$"):
        scene.endpoint("c2", mac_address="02:AA:00:00:00:01")


@pytest.mark.parametrize(
    ("mac", "error"),
    [
        ("02:02:0a:01:01:09", Conflict),
        ("00:00:11:11:11:11", Conflict),
        ("00:00:00:00:00:00", Conflict),
        ("06:02:0a:01:01:09", Conflict),
        ("01:00:5e:00:00:01", Invalid),
        ("02:aa:00:00:00", Invalid),
        ("x", Invalid),
    ],
)
def test_others_are_refused(scene: Scene, mac: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        scene.endpoint("c1", mac_address=mac)
    assert not scene.view.endpoints


def test_nobody_asks_for_the_mac_of_the_next_pod() -> None:
    """In a network without IPv4 a MAC follows from the IPv6 address, which a pod may choose."""
    scene = Scene()
    scene.network("six", subnet="", ipv6_subnet="2001:db8::/64")
    following = ipv6("2001:db8::1")
    asked = ipv6_text(with_mac6_of(following, following + (1 << 40)))
    first = scene.endpoint("c1", "six", ipv6_address=asked)
    second = scene.endpoint("c2", "six")
    assert (first.ipv6_address, first.mac_address) == (asked, mac6_text(following))
    assert second.ipv6_address == "2001:db8::2"
    assert second.mac_address != first.mac_address
