"""`core.collections.bitset`: the store's text form, and set arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.collections.bitset import BitSet, decode, decode_length, span

FRESH_24 = "AAAAAAAAAQAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAADAAAAAAAAAAA=="


@pytest.mark.parametrize(
    ("bits", "length", "text"),
    [
        ((), 0, "AAAAAAAAAAA="),
        ((1, 3), 8, "AAAAAAAAAAgAAAAAAAAACg=="),
        ((0, 254, 255), 256, FRESH_24),
    ],
)
def test_text_form_is_the_originals(bits: tuple[int, ...], length: int, text: str) -> None:
    bitset = BitSet(sum(1 << bit for bit in bits), length)
    assert bitset.encode() == text
    assert decode(text) == bitset
    assert decode_length(text) == length


@given(st.integers(0, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, (1 << n) - 1))))
def test_decode_undoes_encode(case: tuple[int, int]) -> None:
    length, bits = case
    bitset = BitSet(bits, length)
    assert decode(bitset.encode()) == bitset


@given(st.integers(-5, 200), st.integers(-5, 200), st.integers(0, 150))
def test_span_holds_exactly_its_numbers(first: int, last: int, length: int) -> None:
    members = {i for i in range(-5, 205) if i in span(first, last, length)}
    assert members == {i for i in range(length) if first <= i <= last}


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_inverse_cut_and_union(first: int, last: int, length: int) -> None:
    bitset = span(first, last, 130)
    assert {i for i in range(130) if i in bitset.inverted()} == {
        i for i in range(130) if i not in bitset
    }
    cut = bitset.cut(length)
    assert cut.length == min(length, 130)
    assert all((i in cut) == (i in bitset and i < length) for i in range(130))
    assert bitset | bitset.inverted() == span(0, 129, 130)


@pytest.mark.parametrize(
    "text",
    ["!", "AAAA", "AAAAAAAAAAgAAAAAAAAAC", "AAAAAAAAAAg=", "AAAAAAAAAAgAAAAAAAABAA==", "ä"],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bits"):
        decode(text)


def test_bits_beyond_the_length_are_refused() -> None:
    with pytest.raises(ValueError, match="length 3"):
        BitSet(8, 3)
