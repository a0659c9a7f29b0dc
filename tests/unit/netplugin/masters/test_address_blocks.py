"""What a host holds ahead of its pods: when it may be given, and what netmaster is told of it."""

import pytest

from core.ids import NetworkId
from netplugin.masters.address_blocks import KEPT, AddressBlocks, BlocksAnswer, HeldAddress

N1 = NetworkId("n1.default")


class Clock:
    """A clock that tests move."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def blocks(clock: Clock) -> AddressBlocks:
    return AddressBlocks(4, clock)


def answer(
    number: int, *addresses: str, lease: str = "l", renewed: bool = True, drained: bool = False
) -> BlocksAnswer:
    granted = tuple((N1, HeldAddress(one, "", f"h/{lease}/{number}")) for one in addresses)
    return BlocksAnswer(lease, number, renewed, 100.0, granted, drained)


def given(blocks: AddressBlocks) -> str:
    one = blocks.give(N1)
    return one.ipv4 if one else ""


def test_what_was_granted_is_given_once(blocks: AddressBlocks) -> None:
    blocks.answered(0.0, answer(1, "a", "b"))
    assert [given(blocks) for _ in range(3)] == ["a", "b", ""]


def test_nothing_is_given_when_the_lease_is_almost_over(
    blocks: AddressBlocks, clock: Clock
) -> None:
    clock.now = 50.0
    blocks.answered(40.0, answer(1, "a", "b"))
    clock.now = 129.0
    assert (given(blocks), blocks.usable) == ("a", True)
    clock.now = 130.0
    assert (given(blocks), blocks.usable) == ("", False)
    blocks.answered(129.5, answer(2))
    assert given(blocks) == "b"


def test_a_request_names_all_that_is_free_and_all_pods(blocks: AddressBlocks) -> None:
    blocks.answered(0.0, answer(1, "a", "b", "c"))
    given(blocks)
    asked = blocks.request([(N1, "a", "")])
    assert (asked.lease, asked.number) == ("l", 1)
    assert sorted(asked.held[N1]) == ["a", "b", "c"]
    assert asked.wanted == {N1: 2}


def test_nothing_is_wanted_while_there_is_more_than_half(blocks: AddressBlocks) -> None:
    blocks.want([N1])
    before = blocks.low
    blocks.answered(0.0, answer(1, "a", "b", "c"))
    assert (before, blocks.low) == (True, False)
    assert blocks.request([]).wanted == {}


@pytest.mark.parametrize(
    "told",
    [answer(9, lease="other", renewed=False), answer(1, renewed=False), answer(2, drained=True)],
)
def test_what_may_be_anothers_is_given_no_more(blocks: AddressBlocks, told: BlocksAnswer) -> None:
    blocks.answered(0.0, answer(2, "a"))
    blocks.answered(0.0, told)
    assert given(blocks) == ""
    assert blocks.request([]).held.get(N1, []) == []


def test_a_lost_answer_costs_nothing_that_is_held(blocks: AddressBlocks) -> None:
    blocks.answered(0.0, answer(1, "a"))
    blocks.answered(0.0, answer(2, renewed=False))
    assert (blocks.request([]).number, blocks.pause) == (2, 0.0)
    assert given(blocks) == "a"


def test_a_store_that_went_back_ends_all(blocks: AddressBlocks) -> None:
    blocks.answered(0.0, answer(1, "a"))
    blocks.store_went_back()
    assert (given(blocks), blocks.usable, blocks.pause) == ("", False, 0.0)


def test_the_address_of_a_pod_that_runs_on_is_given_to_no_other(blocks: AddressBlocks) -> None:
    blocks.answered(0.0, answer(1, "a", "b"), [(N1, "a", "")])
    assert given(blocks) == "b"


def test_addresses_of_ipv6_alone_are_given(blocks: AddressBlocks) -> None:
    granted = tuple((N1, HeldAddress("", one, "h/l/1")) for one in ("fd00::1", "fd00::2"))
    told = BlocksAnswer("l", 1, True, 100.0, granted, False)
    blocks.answered(0.0, told, [(N1, "", "fd00::1")])
    assert [one.ipv6 for one in (blocks.give(N1),) if one] == ["fd00::2"]
    assert blocks.give(N1) is None


def test_networks_without_pods_are_given_back_after_a_while(
    blocks: AddressBlocks, clock: Clock
) -> None:
    blocks.want([N1])
    blocks.answered(0.0, answer(1, "a"))
    clock.now = KEPT - 1
    assert blocks.request([]).held == {N1: ["a"]}
    clock.now = KEPT
    assert blocks.request([]).held == {}
