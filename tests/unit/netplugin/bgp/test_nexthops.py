"""Next hops: requested until they answer, and now and then again."""

import asyncio
from collections import Counter
from ipaddress import IPv4Address

import pytest

from core.tasks import background
from netplugin.bgp import nexthops
from netplugin.bgp.nexthops import Address, NextHops
from tests.unit.netplugin.agent import eventually

ONE, TWO = IPv4Address("50.1.1.2"), IPv4Address("50.1.1.3")
MAC, OTHER = "52:54:00:00:00:0c", "52:54:00:00:00:0d"


FAST = 0.001


def ignore(_address: Address) -> None:
    """Send no request."""


def test_only_wanted_addresses_are_put() -> None:
    hops = NextHops(ignore)
    assert not hops.put(ONE, MAC)
    hops.want(frozenset({ONE}))
    assert hops.put(ONE, MAC)
    assert not hops.put(ONE, MAC)
    assert not hops.put(TWO, MAC)
    assert hops.macs == {ONE: MAC}


def test_complete_when_all_are_resolved() -> None:
    hops = NextHops(ignore)
    complete = []
    for wanted in ((), (ONE,), (ONE, TWO)):
        hops.want(frozenset(wanted))
        complete.append(hops.complete)
    hops.put(ONE, MAC)
    complete.append(hops.complete)
    hops.put(TWO, OTHER)
    assert [*complete, hops.complete] == [True, False, False, False, True]


def test_another_machine_can_take_an_address_over() -> None:
    hops = NextHops(ignore)
    hops.want(frozenset({ONE}))
    hops.put(ONE, MAC)
    assert hops.put(ONE, OTHER)
    assert hops.macs == {ONE: OTHER}


def test_an_address_no_longer_wanted_is_removed() -> None:
    hops = NextHops(ignore)
    hops.want(frozenset({ONE, TWO}))
    hops.put(ONE, MAC)
    hops.put(TWO, OTHER)
    hops.want(frozenset({TWO}))
    assert hops.macs == {TWO: OTHER}


async def test_unresolved_addresses_are_requested_in_every_round_and_others_now_and_then() -> None:
    asked: Counter[Address] = Counter()
    hops = NextHops(lambda address: asked.update([address]), interval=FAST)
    hops.want(frozenset({ONE, TWO}))
    hops.put(ONE, MAC)
    async with background("next hops", hops.run()):
        await eventually(lambda: asked[ONE] == 2)
        assert asked[TWO] >= 2 * (nexthops.REFRESH - 1)


async def test_requests_of_one_round_are_limited() -> None:
    asked: list[Address] = []
    hops = NextHops(asked.append, interval=60.0)
    hops.want(frozenset(IPv4Address(number) for number in range(1, 1000)))
    async with background("next hops", hops.run()):
        await eventually(lambda: bool(asked))
    assert len(asked) == nexthops.AT_ONCE


@pytest.mark.parametrize("known", [False, True])
async def test_each_has_its_turn_however_many_there_are(*, known: bool) -> None:
    asked: list[Address] = []
    hops = NextHops(asked.append, interval=FAST)
    wanted = frozenset(IPv4Address(number) for number in range(1, 5 * nexthops.AT_ONCE))
    hops.want(wanted)
    for address in wanted if known else ():
        hops.put(address, MAC)
    async with background("next hops", hops.run()):
        await eventually(lambda: len(asked) >= len(wanted))
    assert set(asked[: len(wanted)]) == wanted


async def test_waiting_for_an_address() -> None:
    hops = NextHops(ignore)
    hops.want(frozenset({ONE, TWO}))
    async with background("known", hops.wait_for(ONE)) as known:
        await asyncio.sleep(0)
        hops.put(TWO, OTHER)
        await asyncio.sleep(0)
        assert not known.done()
        hops.put(ONE, MAC)
        await eventually(known.done)
