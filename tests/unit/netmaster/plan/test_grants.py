"""The choices and refusals that endpoints, reservations and groups share."""

import pytest

from core.addresses import ipv4, parse_subnet6, subnet4
from core.errors import Conflict, Invalid, NotFound
from core.ids import GroupKey, NetworkId
from netmaster.plan import grants
from state.records import GrantOwner
from tests.unit.netmaster.scene import Scene

N1 = NetworkId("n1.default")
SUBNET = subnet4(ipv4("10.1.1.0"), 24)


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1")
    scene.group("g1")
    scene.group("gp", ip_pool="10.1.1.5-10.1.1.6")
    return scene


def _ground(scene: Scene, group: str | None = None) -> grants.AddressSource:
    key = GroupKey(f"{group}:default") if group else None
    return grants.address_source(scene.view, scene.view.networks[N1], key)


@pytest.mark.parametrize(
    ("group", "owner", "address"),
    [(None, None, "10.1.1.1"), ("g1", None, "10.1.1.1"), ("gp", "gp:default", "10.1.1.5")],
)
def test_where_an_address_comes_from(
    scene: Scene, group: str | None, owner: str | None, address: str
) -> None:
    place = _ground(scene, group)
    assert place.pool_owner == owner
    assert grants.choose4(place, "") == address


def test_an_unknown_group_is_refused(scene: Scene) -> None:
    with pytest.raises(NotFound):
        _ground(scene, "nope")


def test_only_a_grant_of_the_usable_kind_is_passed_on(scene: Scene) -> None:
    scene.allocate(preferred="10.1.1.9")
    place = _ground(scene)
    assert (
        grants.choose4(place, "10.1.1.9", usable=grants.Usable(GrantOwner.RESERVATION))
        == "10.1.1.9"
    )
    with pytest.raises(Conflict, match=r"^ip address 10.1.1.9 is not available$"):
        grants.choose4(place, "10.1.1.9")


def test_a_network_without_ipv6_gives_none(scene: Scene) -> None:
    with pytest.raises(Invalid, match="subnet length 0 is invalid"):
        grants.choose6(_ground(scene), "")


def test_host_numbers_wrap_as_unsigned_ones_do() -> None:
    assert grants.in_subnet4("10.1.1.7", SUBNET) == ipv4("10.1.1.7")
    with pytest.raises(Invalid) as caught:
        grants.in_subnet4("10.1.0.255", SUBNET)
    text = "hostIP 10.1.0.255 is exceeding beyond subnet 10.1.1.0/24, hostID 4294967295"
    assert str(caught.value) == text


def test_ipv6_addresses_must_be_in_the_subnet() -> None:
    subnet, _ = parse_subnet6("2001:db8::/64")
    assert grants.in_subnet6("2001:db8::7", subnet) == subnet.base + 7
    with pytest.raises(Invalid):
        grants.in_subnet6("2001:db9::7", subnet)


def test_a_grant_is_new_unless_the_address_is_held(scene: Scene) -> None:
    scene.allocate(preferred="10.1.1.9")
    place = _ground(scene)
    grant = place.addresses.grants["10.1.1.9"]
    assert not grants.grant_write(place, "10.1.1.9", grant).new
    assert grants.grant_write(place, "10.1.1.10", grant).new
