"""Digests of flows, groups and meters: equal for equal content, and guessable by no tenant."""

from collections.abc import Iterator
from hashlib import blake2b

import pytest

from ofnet import digests
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.openflow.actions import Bucket, Output, SelectGroup
from ofnet.openflow.meters import Meter
from ofnet.world import Bridge, World
from tests.unit.ofnet.full_worlds import worlds

ONE, OTHER = b"a" * 32, b"b" * 32


@pytest.fixture(autouse=True)
def _no_key_afterwards() -> Iterator[None]:
    yield
    digests.use_key(b"")


@pytest.mark.parametrize("key", [b"", ONE])
def test_they_are_those_of_blake2b(key: bytes) -> None:
    digests.use_key(key)
    wanted = {size: blake2b(b"content", digest_size=size, key=key).digest() for size in (4, 6)}
    for _ in range(2):
        assert digests.cookie_digest(b"content") == int.from_bytes(wanted[6], "big")
        assert digests.number(b"content") == int.from_bytes(wanted[4], "big")


@pytest.mark.parametrize(("bridge", "world"), list(worlds()))
def test_no_flow_has_a_cookie_that_another_key_gives(bridge: Bridge, world: World) -> None:
    found = {key: cookies(bridge, world, key) for key in (ONE, OTHER)}
    assert found[ONE]
    assert found[ONE].isdisjoint(found[OTHER])
    assert cookies(bridge, world, ONE) == found[ONE], "as after a restart"


def test_a_group_has_another_number_under_another_key() -> None:
    buckets = tuple(Bucket(1, (Output(one),)) for one in range(3))
    numbers = []
    for key in (ONE, OTHER, ONE):
        digests.use_key(key)
        numbers.append(SelectGroup(buckets).id)
    assert numbers[0] == numbers[2] != numbers[1]


def test_rules_that_share_a_meter_are_others_under_another_key() -> None:
    names = [f"rule{one}".encode() for one in range(64)]
    digests.use_key(ONE)
    before = [Meter.of_drops(name).id for name in names]
    digests.use_key(OTHER)
    assert [Meter.of_drops(name).id for name in names] != before


def cookies(bridge: Bridge, world: World, key: bytes) -> set[int]:
    digests.use_key(key)
    desired = Desired(bridge)
    desired.update(world, EVERYTHING)
    return {flow.cookie for flow in desired.flows.values()}
