"""Who leaves by which card of an uplink."""

from dataclasses import replace

import pytest

from ofnet.packets.uplink_choice import choose_uplink, fnv1a
from ofnet.world import Uplink

CARDS = tuple(Uplink(ofport=number, mac="52:54:00:00:00:0a") for number in (4, 5, 6))
MACS = [f"02:02:0a:01:00:{number:02x}" for number in range(64)]


@pytest.mark.parametrize(
    ("data", "hashed"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]
)
def test_the_hash_is_fnv_1a(data: bytes, hashed: int) -> None:
    """As its authors' test vectors say."""
    assert fnv1a(data) == hashed


def test_each_address_has_its_card_and_each_card_its_addresses() -> None:
    ways = {mac: choose_uplink(CARDS, mac) for mac in MACS}
    assert set(ways.values()) == set(CARDS)
    assert ways == {mac: choose_uplink(CARDS, mac) for mac in MACS}


def test_only_cards_that_work_count() -> None:
    first_down = (replace(CARDS[0], up=False), *CARDS[1:])
    assert {choose_uplink(first_down, mac) for mac in MACS} == set(CARDS[1:])
    assert choose_uplink((replace(CARDS[0], up=False),), MACS[0]) is None
    assert choose_uplink((), MACS[0]) is None
