"""Reservations: allocate, release, reclaim."""

from typing import Any

import pytest

from contivmodel.rpc import AllocAddressRequest, ReleaseAddressRequest
from core.errors import Exhausted, Invalid
from core.ids import NetworkId
from netmaster.plan.endpoints import address
from netmaster.plan.endpoints.address import split_alloc_id
from netmaster.plan.objects import network
from tests.unit.netmaster.scene import NOW, Scene


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.network("v6", "10.1.4.0/24", ipv6_subnet="2001:db8::/120", ipv6_gateway="2001:0db8::1")
    scene.group("g1")
    scene.group("gp", ip_pool="10.1.1.100-10.1.1.102")
    return scene


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"network_id": "n1.default"}, "10.1.1.1/24"),
        ({"network_id": "n1.default", "address_pool": "10.1.1.0/24"}, "10.1.1.1/24"),
        ({"network_id": "", "address_pool": "10.1.1.0/24"}, "10.1.1.1/24"),
        ({"network_id": "n1:g1.default"}, "10.1.1.1/24"),
        ({"network_id": "n1:gp.default"}, "10.1.1.100/24"),
        ({"network_id": "n1.default", "preferred": "10.1.1.77"}, "10.1.1.77/24"),
        ({"network_id": "v6.default", "address_pool": "2001:db8::/120"}, "2001:db8::2/120"),
        ({"network_id": "", "address_pool": "2001:db8::/120"}, "2001:db8::2/120"),
        ({"network_id": "", "address_pool": "2001:0db8:0::/120"}, "2001:db8::2/120"),
        (
            {
                "network_id": "v6.default",
                "address_pool": "2001:db8::/120",
                "preferred": "2001:db8::0050",
            },
            "2001:db8::50/120",
        ),
    ],
)
def test_what_is_reserved(scene: Scene, asked: dict[str, str], answer: str) -> None:
    plan = address.allocate(scene.view, AllocAddressRequest(**asked), NOW)
    assert plan.reply == answer
    assert len(plan.writes) == 1
    scene.do(address.allocate, AllocAddressRequest(**asked), NOW)
    assert len(scene.view.reservations) == 1


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"address_pool": "10.9.9.0/24"}, "network not found"),
        ({"address_pool": "10.1.1.0/24:other"}, "network not found"),
        ({"address_pool": "zz::/64"}, "network not found"),
        # the original takes the colon for an IPv6 pool
        ({"address_pool": "10.1.1.0/24:default"}, "subnet length 0 is invalid"),
        (
            {"address_pool": "10.1.1.0"},
            "invalid address pool '10.1.1.0', expected <subnet>/<length>",
        ),
        ({}, "invalid address pool '', expected <subnet>/<length>"),
        ({"network_id": "nope.default"}, "key not found"),
        ({"network_id": "n1:nope.default"}, "key not found"),
        ({"network_id": "n1.default", "address_pool": "::/64"}, "subnet length 0 is invalid"),
        (
            {"network_id": "n1.default", "preferred": "10.8.1.1"},
            "hostIP 10.8.1.1 is exceeding beyond subnet 10.1.1.0/24, hostID 458753",
        ),
        (
            {"network_id": "n1.default", "preferred": "9.8.1.1"},
            "hostIP 9.8.1.1 is exceeding beyond subnet 10.1.1.0/24, hostID 4278648833",
        ),
        (
            {"network_id": "n1.default", "preferred": "abc"},
            "unable to convert hostIP abc to uint32",
        ),
        (
            {"network_id": "n1.default", "preferred": "10.1.1.0"},
            "ip address 10.1.1.0 is not available",
        ),
        (
            {"network_id": "v6.default", "address_pool": "::/0", "preferred": "2001:dead::50"},
            "hostIP 2001:dead::50 is exceeding beyond subnet 2001:db8::/120",
        ),
        (
            {"network_id": "v6.default", "address_pool": "::/0", "preferred": "abc"},
            "abc is not an IPv6 address",
        ),
    ],
)
def test_what_cannot_be_reserved(scene: Scene, asked: dict[str, Any], text: str) -> None:
    assert scene.refused(address.allocate, AllocAddressRequest(**asked), NOW) == text


def test_an_address_is_reserved_once(scene: Scene) -> None:
    """What is reserved is granted to nobody who does not ask for it, nor what an endpoint has."""
    scene.allocate(preferred="10.1.1.1")
    assert scene.allocate() == "10.1.1.2/24"
    scene.endpoint("c1", ip_address="10.1.1.77")
    asked = AllocAddressRequest(network_id="n1.default", preferred="10.1.1.77")
    text = "ip address 10.1.1.77 is not available: container cn-c1 on host h1 has it"
    assert scene.refused(address.allocate, asked, NOW) == text
    assert scene.lists()[2] == 3


def test_the_gateway_is_answered_and_not_reserved(scene: Scene) -> None:
    assert scene.allocate(preferred="10.1.1.254") == "10.1.1.254/24"
    pool = "2001:db8::/120"
    assert scene.allocate("v6.default", address_pool=pool, preferred="2001:db8::1") == (
        "2001:db8::1/120"
    )
    assert scene.view.reservations == {}


def test_of_equal_subnets_the_last_by_id_is_meant(scene: Scene) -> None:
    scene.tenant("zed")
    scene.network("n1", tenant_name="zed")
    scene.do(address.allocate, AllocAddressRequest(address_pool="10.1.1.0/24"), NOW)
    assert list(scene.view.reservations) == ["/contiv.io/ipam/n1.zed/10.1.1.1"]


def test_release_frees_a_reservation_and_nothing_else(scene: Scene) -> None:
    scene.allocate(preferred="10.1.1.77")
    scene.endpoint("c1")
    before = scene.lists()
    for ip in ("10.1.1.254", "10.1.1.1", "10.1.1.200", "10.1.1.0"):
        assert scene.release(ip) == "success"
        assert scene.lists() == before
    assert scene.release("10.1.1.77") == "success"
    assert scene.release("10.1.1.77") == "success"
    assert scene.lists() == (
        "10.1.1.1, 10.1.1.100-10.1.1.102, 10.1.1.254",
        "10.1.1.2-10.1.1.99, 10.1.1.103-10.1.1.253",
        1,
    )


def test_release_in_a_pool_and_of_ipv6(scene: Scene) -> None:
    scene.allocate("n1:gp.default")
    assert scene.release("10.1.1.100", "n1:gp.default") == "success"
    scene.allocate("v6.default", address_pool="2001:db8::/120")
    assert scene.release("2001:0db8::2", "v6.default") == "success"
    assert scene.view.reservations == {}


@pytest.mark.parametrize(
    ("nid", "ip", "text"),
    [
        (
            "n1.default",
            "10.9.1.1",
            "hostIP 10.9.1.1 is exceeding beyond subnet 10.1.1.0/24, hostID 524289",
        ),
        ("n1.default", "", "unable to convert hostIP  to uint32"),
        ("n1.default", "10.1.1.1/24", "unable to convert hostIP 10.1.1.1/24 to uint32"),
        ("n1.default", "::1", "subnet length 0 is invalid"),
        ("nope.default", "10.1.1.1", "key not found"),
        ("n1:nope.default", "10.1.1.1", "key not found"),
    ],
)
def test_what_cannot_be_released(scene: Scene, nid: str, ip: str, text: str) -> None:
    request = ReleaseAddressRequest(network_id=nid, ipv4_address=ip)
    assert scene.refused(address.release, request) == text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("abc:xyz.def", ("abc.def", "xyz:def")),
        ("net1:epg1.default", ("net1.default", "epg1:default")),
        ("net1.default", ("net1.default", None)),
        ("abcd", ("abcd", None)),
        ("abcd.1234.12", ("abcd.1234.12", None)),
        ("abcd:xyz.zyz.abc", ("abcd:xyz.zyz.abc", None)),
    ],
)
def test_alloc_ids(text: str, parts: tuple[str, str | None]) -> None:
    assert split_alloc_id(text) == parts


def test_overdue_reservations_are_reclaimed(scene: Scene) -> None:
    scene.allocate()
    scene.allocate()
    overdue = set(scene.view.reservations)
    scene.endpoint("c1", ip_address="10.1.1.1")
    assert scene.do(address.reclaim, ()) == 0
    assert scene.do(address.reclaim, overdue) == 1
    assert scene.view.reservations == {}
    assert scene.lists()[2] == 1


def test_reclaiming_takes_as_many_plans_as_it_needs(scene: Scene) -> None:
    for _ in range(address.CHUNK + 1):
        scene.allocate()
    overdue = set(scene.view.reservations)
    assert scene.do(address.reclaim, overdue) == address.CHUNK
    assert scene.do(address.reclaim, overdue) == 1
    assert scene.do(address.reclaim, overdue) == 0


def test_what_a_deleted_network_left_behind_is_reclaimed_at_once(scene: Scene) -> None:
    for _ in range(network.SWEEP + 3):
        scene.allocate("v6.default")
    scene.do(network.delete, "default:v6")
    assert scene.do(address.reclaim, ()) == 3
    assert NetworkId("v6.default") not in scene.view.addresses


def in_swarm(scene: Scene, pool: str, **more: str) -> str:
    request = AllocAddressRequest(address_pool=pool, **more)
    return str(scene.do(address.allocate_in_swarm, request, NOW))


@pytest.mark.parametrize(
    ("pool", "first"),
    [
        ("10.9.9.0/24", "10.9.9.1/24"),
        ("10.9.9.77/26", "10.9.9.65/26"),
        ("10.9.9.0/24:blue", "10.9.9.1/24"),
        ("2016:0430::/64", "2016:430::/64"),
        ("2016:430::ff/100", "2016:430::/100"),
        ("2016:430:0:0:8000::/67", "2016:430:0:0:8000::/67"),
        ("2016:430::/64:blue", "2016:430::/64"),
    ],
)
def test_in_a_swarm_a_pool_without_a_network_has_a_gateway(
    scene: Scene, pool: str, first: str
) -> None:
    assert in_swarm(scene, pool) == first
    assert scene.view.reservations == {}


def test_in_a_swarm_a_network_gives_its_addresses(scene: Scene) -> None:
    assert in_swarm(scene, "10.1.1.0/24") == "10.1.1.1/24"
    assert in_swarm(scene, "", network_id="n1.default") == "10.1.1.2/24"
    assert len(scene.view.reservations) == 2


@pytest.mark.parametrize(
    "pool", ["", "10.9.9.0", "10.9.9.0/32", "x/24", "10.9.9.0/33", "fe80::/129"]
)
def test_in_a_swarm_what_is_no_pool_is_refused(scene: Scene, pool: str) -> None:
    request = AllocAddressRequest(address_pool=pool)
    text = f"invalid address pool {pool!r}, expected <subnet>/<length>"
    assert scene.refused(address.allocate_in_swarm, request, NOW) == text


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        ({"network_id": "n1.default", "range": "10.1.1.128/30"}, ["128", "129", "130", "131"]),
        ({"network_id": "n1:gp.default", "range": "10.1.1.100/31"}, ["100", "101"]),
    ],
)
def test_an_address_of_a_range(scene: Scene, asked: dict[str, str], answers: list[str]) -> None:
    request = AllocAddressRequest(**asked)
    given = [scene.do(address.allocate, request, NOW) for _ in answers]
    assert given == [f"10.1.1.{last}/24" for last in answers]
    with pytest.raises(Exhausted, match="address exhaustion in range"):
        address.allocate(scene.view, request, NOW)


def test_an_ipv6_address_of_a_range(scene: Scene) -> None:
    asked = {"network_id": "v6.default", "address_pool": "2001:db8::/120"}
    request = AllocAddressRequest(**asked, range="2001:db8::80/127")
    given = [scene.do(address.allocate, request, NOW) for _ in range(2)]
    assert given == ["2001:db8::80/120", "2001:db8::81/120"]
    with pytest.raises(Exhausted, match="address exhaustion in range"):
        address.allocate(scene.view, request, NOW)


@pytest.mark.parametrize("text", ["10.9.0.0/24", "10.1.0.0/16", "x", "2001:db8::/64"])
def test_ranges_that_are_none(scene: Scene, text: str) -> None:
    with pytest.raises(Invalid):
        address.allocate(scene.view, AllocAddressRequest(network_id="n1.default", range=text), NOW)


@pytest.mark.parametrize(
    ("pool", "preferred"), [("", "10.1.1.7"), ("2001:db8::/120", "2001:db8::7")]
)
def test_a_reservation_is_answered_again(scene: Scene, pool: str, preferred: str) -> None:
    """And is a new one: its time begins anew. An endpoint's address is no reservation's."""
    network_id = "v6.default" if pool else "n1.default"
    request = AllocAddressRequest(network_id=network_id, address_pool=pool, preferred=preferred)
    first = scene.do(address.allocate, request, NOW)
    (before,) = scene.view.reservations.values()
    assert scene.do(address.allocate, request, NOW) == first
    (after,) = scene.view.reservations.values()
    assert after.seq > before.seq


def reserved(scene: Scene, host: str, nid: str = "s.default", **more: Any) -> int:
    """Have a host's agent reserve addresses until it is refused; return how many."""
    for count in range(500):
        try:
            scene.do(address.allocate, AllocAddressRequest(network_id=nid, **more), NOW, host=host)
        except Exhausted:
            return count
    return 500


def test_one_agent_leaves_addresses_for_others(scene: Scene) -> None:
    scene.network("s", "10.9.9.0/28", gateway="10.9.9.1")
    assert reserved(scene, "h1") == 6  # of 13
    scene.endpoint("c2", network_name="s")
    assert reserved(scene, "h2") == 3  # of 6
    assert reserved(scene, "h1") == 0
    assert reserved(scene, "h3") == 1


def test_the_last_address_is_reserved_by_who_has_none(scene: Scene) -> None:
    scene.network("s", "10.9.9.0/30")
    assert reserved(scene, "h1") == 1
    assert reserved(scene, "h2") == 1
    assert reserved(scene, "h3") == 0


def test_an_agent_reserves_so_many_addresses_in_all(scene: Scene) -> None:
    scene.network("s", "10.8.0.0/16")
    scene.network("t", "10.9.0.0/16")
    assert reserved(scene, "h1") == address.MOST_OF_HOST
    assert reserved(scene, "h1", "t.default") == 0
    pool = {"address_pool": "2001:db8::/120"}
    assert reserved(scene, "h1", "v6.default", **pool) == 0
    assert reserved(scene, "h2", "v6.default", **pool) > 5


def test_an_agent_releases_its_own_reservations_alone(scene: Scene) -> None:
    request = AllocAddressRequest(network_id="n1.default", preferred="10.1.1.7")
    scene.do(address.allocate, request, NOW, host="h1")
    scene.do(address.allocate, request, NOW, host="h2")  # what both have in common
    release = ReleaseAddressRequest(network_id="n1.default", ipv4_address="10.1.1.7")
    assert scene.do(address.release, release, host="h2") == "success"
    assert [one.host for one in scene.view.reservations.values()] == ["h1"]
    assert scene.do(address.release, release, host="h1") == "success"
    assert scene.view.reservations == {}
