"""IPv4 addresses of a network and its groups' pools."""

import pytest

from core.addresses import Subnet, ipv4, ipv4_text, parse_range
from core.ids import GroupKey
from netmaster.ipam.pool import Pool

WEB = GroupKey("web:default")
DB = GroupKey("db:default")


def _pool(text: str) -> Pool:
    claimed = parse_range(text)
    low, high = claimed.extent
    return Pool(claimed.subnet, low, high)


def _take_all(pool: Pool, group: GroupKey | None = None) -> list[str]:
    taken = []
    while (address := pool.lowest(group)) is not None:
        pool.take(address)
        taken.append(ipv4_text(address))
    return taken


@pytest.mark.parametrize(
    ("subnet", "count"), [("10.1.1.0/31", 0), ("10.1.1.0/30", 2), ("10.1.1.0/29", 6)]
)
def test_network_and_broadcast_address_are_never_given(subnet: str, count: int) -> None:
    taken = _take_all(_pool(subnet))
    assert taken == [f"10.1.1.{number}" for number in range(1, count + 1)]


def test_a_range_is_given_to_its_last_address() -> None:
    assert _take_all(_pool("10.1.1.10-10.1.1.13/24")) == [
        "10.1.1.10",
        "10.1.1.11",
        "10.1.1.12",
        "10.1.1.13",
    ]


def test_a_released_address_is_the_next() -> None:
    pool = _pool("10.1.1.0/29")
    _take_all(pool)
    pool.release(ipv4("10.1.1.4"))
    assert pool.lowest() == ipv4("10.1.1.4")


def test_an_address_outside_the_range_is_not_assignable() -> None:
    pool = _pool("10.1.1.10-10.1.1.13/24")
    assert pool.assignable(ipv4("10.1.1.10"))
    assert not pool.assignable(ipv4("10.1.1.9"))
    pool.take(ipv4("10.1.1.254"))
    pool.release(ipv4("10.1.1.254"))
    assert not pool.assignable(ipv4("10.1.1.254"))


def test_a_pool_is_given_to_its_group_alone() -> None:
    pool = _pool("10.1.1.0/29")
    pool.carve(WEB, ipv4("10.1.1.2"), ipv4("10.1.1.3"))
    pool.carve(DB, ipv4("10.1.1.5"), ipv4("10.1.1.5"))
    assert [pool.group_of(ipv4(f"10.1.1.{n}")) for n in range(1, 7)] == [
        None,
        WEB,
        WEB,
        None,
        DB,
        None,
    ]
    assert _take_all(pool) == ["10.1.1.1", "10.1.1.4", "10.1.1.6"]
    assert _take_all(pool, WEB) == ["10.1.1.2", "10.1.1.3"]
    assert _take_all(pool, DB) == ["10.1.1.5"]
    pool.release(ipv4("10.1.1.3"))
    assert pool.lowest() is None
    assert pool.lowest(WEB) == ipv4("10.1.1.3")


def test_a_group_without_a_pool_shares_the_networks() -> None:
    pool = _pool("10.1.1.0/29")
    assert pool.lowest(WEB) == ipv4("10.1.1.1")


def test_a_pool_returns_with_what_is_still_held_in_it() -> None:
    pool = _pool("10.1.1.0/29")
    pool.take(ipv4("10.1.1.2"))
    pool.carve(WEB, ipv4("10.1.1.2"), ipv4("10.1.1.4"))
    assert pool.lowest(WEB) == ipv4("10.1.1.3")
    pool.take(ipv4("10.1.1.3"))
    pool.restore(WEB)
    pool.restore(WEB)
    assert _take_all(pool) == ["10.1.1.1", "10.1.1.4", "10.1.1.5", "10.1.1.6"]
    pool.release(ipv4("10.1.1.3"))
    assert pool.lowest() == ipv4("10.1.1.3")


def test_first_taken_sees_held_addresses_and_pools() -> None:
    pool = Pool(Subnet(ipv4("10.1.1.0"), 24), ipv4("10.1.1.0"), ipv4("10.1.1.255"))
    pool.carve(WEB, ipv4("10.1.1.20"), ipv4("10.1.1.30"))
    pool.take(ipv4("10.1.1.5"))
    assert pool.first_taken(ipv4("10.1.1.6"), ipv4("10.1.1.19")) is None
    assert pool.first_taken(ipv4("10.1.1.1"), ipv4("10.1.1.9")) == ipv4("10.1.1.5")
    assert pool.first_taken(ipv4("10.1.1.15"), ipv4("10.1.1.40")) == ipv4("10.1.1.20")
    assert pool.first_taken(ipv4("10.1.1.0"), ipv4("10.1.1.3")) == ipv4("10.1.1.0")


def test_a_pool_can_be_carved_when_its_last_address_and_the_next_are_held() -> None:
    low, high = ipv4("10.1.1.5"), ipv4("10.1.1.254")
    pool = Pool(Subnet(ipv4("10.1.1.0"), 24), ipv4("10.1.1.0"), ipv4("10.1.1.255"))
    pool.take(high)  # beyond it there is no free address at all
    pool.carve(GroupKey("g:t"), low, high)
    assert pool.lowest(GroupKey("g:t")) == low
