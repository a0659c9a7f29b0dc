"""Next hops: asked for until they answer, and now and then again."""

import asyncio
from collections import Counter
from ipaddress import IPv4Address

import pytest

from core.tasks import background
from netplugin.bgp import nexthops
from netplugin.bgp.nexthops import NextHops
from tests.unit.netplugin.agent import eventually

ONE, TWO = IPv4Address("50.1.1.2"), IPv4Address("50.1.1.3")
MAC, OTHER = "52:54:00:00:00:0c", "52:54:00:00:00:0d"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nexthops, "EVERY", 0.001)


def quiet(_address: IPv4Address) -> None:
    """Ask nobody."""


def test_only_who_is_wanted_is_heard() -> None:
    hops = NextHops(quiet)
    assert not hops.hear(ONE, MAC)
    hops.want(frozenset({ONE}))
    assert hops.hear(ONE, MAC)
    assert not hops.hear(ONE, MAC)
    assert not hops.hear(TWO, MAC)
    assert hops.macs == {ONE: MAC}


def test_it_is_known_whether_all_are_known() -> None:
    hops = NextHops(quiet)
    complete = []
    for wanted in ((), (ONE,), (ONE, TWO)):
        hops.want(frozenset(wanted))
        complete.append(hops.complete)
    hops.hear(ONE, MAC)
    complete.append(hops.complete)
    hops.hear(TWO, OTHER)
    assert [*complete, hops.complete] == [True, False, False, False, True]


def test_another_machine_can_take_an_address_over() -> None:
    hops = NextHops(quiet)
    hops.want(frozenset({ONE}))
    hops.hear(ONE, MAC)
    assert hops.hear(ONE, OTHER)
    assert hops.macs == {ONE: OTHER}


def test_who_is_wanted_no_more_is_forgotten() -> None:
    hops = NextHops(quiet)
    hops.want(frozenset({ONE, TWO}))
    hops.hear(ONE, MAC)
    hops.hear(TWO, OTHER)
    hops.want(frozenset({TWO}))
    assert hops.macs == {TWO: OTHER}


async def test_who_is_unknown_is_asked_for_until_known_and_now_and_then_again() -> None:
    asked: Counter[IPv4Address] = Counter()
    hops = NextHops(lambda address: asked.update([address]))
    hops.want(frozenset({ONE, TWO}))
    hops.hear(ONE, MAC)
    async with background("next hops", hops.run()):
        await eventually(lambda: asked[ONE] == 2)
        assert asked[TWO] >= 2 * (nexthops.REFRESH - 1)


async def test_not_all_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nexthops, "EVERY", 60.0)
    asked: list[IPv4Address] = []
    hops = NextHops(asked.append)
    hops.want(frozenset(IPv4Address(number) for number in range(1, 1000)))
    async with background("next hops", hops.run()):
        await eventually(lambda: bool(asked))
    assert len(asked) == nexthops.AT_ONCE


@pytest.mark.parametrize("known", [False, True])
async def test_each_has_its_turn_however_many_there_are(*, known: bool) -> None:
    asked: list[IPv4Address] = []
    hops = NextHops(asked.append)
    wanted = frozenset(IPv4Address(number) for number in range(1, 5 * nexthops.AT_ONCE))
    hops.want(wanted)
    for address in wanted if known else ():
        hops.hear(address, MAC)
    async with background("next hops", hops.run()):
        await eventually(lambda: len(asked) >= len(wanted))
    assert set(asked[: len(wanted)]) == wanted


async def test_it_can_be_waited_for_that_somebody_is_known() -> None:
    hops = NextHops(quiet)
    hops.want(frozenset({ONE, TWO}))
    async with background("known", hops.known(ONE)) as known:
        await asyncio.sleep(0)
        hops.hear(TWO, OTHER)
        await asyncio.sleep(0)
        assert not known.done()
        hops.hear(ONE, MAC)
        await eventually(known.done)
