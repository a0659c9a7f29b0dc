"""Metadata bits: what fits, what may be combined, how it is printed."""

import itertools

import pytest

from ofnet.openflow.fields import DESTINATION_GROUP, RX_VTEP, SOURCE_GROUP, VRF, Bits


def test_the_fields_do_not_overlap() -> None:
    for one, other in itertools.combinations([RX_VTEP, DESTINATION_GROUP, SOURCE_GROUP, VRF], 2):
        assert not one.mask & other.mask


def test_a_pods_marks_are_those_of_the_original() -> None:
    assert str(VRF.put(1) | SOURCE_GROUP.put(100)) == "0x100640000/0xff7fff0000"
    assert str(DESTINATION_GROUP.put(200)) == "0x190/0xfffe"
    assert str(VRF.put(1) | RX_VTEP.put(1)) == "0x100000001/0xff00000001"
    assert str(DESTINATION_GROUP.put(0)) == "0/0xfffe"


@pytest.mark.parametrize("value", [-1, 32768])
def test_what_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit into 15"):
        SOURCE_GROUP.put(value)


def test_one_bit_cannot_have_two_meanings() -> None:
    with pytest.raises(ValueError, match="same metadata bits"):
        _ = Bits(1, 3) | Bits(2, 2)
