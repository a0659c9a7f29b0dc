"""Allocation bitmaps in the original's JSON form.

The text is base64 (URL alphabet, padded) of an 8-byte big-endian bit length and then 64-bit
big-endian words, word 0 holding bits 0..63 with bit i as `1 << i % 64`
(docs/original/netmaster-state.md §2). Pure. The set is one Python int, so operations on large
maps are fast.
"""

import base64
import binascii
from array import array
from dataclasses import dataclass

_WORD = 64


@dataclass(frozen=True, slots=True)
class BitSet:
    """A set of bit numbers 0..length-1; `bits` has bit i set for each member i."""

    bits: int = 0
    length: int = 0

    def __post_init__(self) -> None:
        if self.bits < 0 or self.length < 0 or self.bits >> self.length:
            raise ValueError(f"bits do not fit a bitset of length {self.length}")

    def __contains__(self, index: int) -> bool:
        return index >= 0 and bool(self.bits >> index & 1)

    def __or__(self, other: "BitSet") -> "BitSet":
        return BitSet(self.bits | other.bits, max(self.length, other.length))

    def inverted(self) -> "BitSet":
        """Return the complement, of the same length."""
        return BitSet(self.bits ^ (1 << self.length) - 1, self.length)

    def cut(self, length: int) -> "BitSet":
        """Return the members below `length`, in a set of at most that length."""
        if length >= self.length:
            return self
        return BitSet(self.bits & (1 << length) - 1, length)

    def encode(self) -> str:
        """Return the text form."""
        # Bit i of the int is bit i % 64 of little-endian word i // 64; only the bytes within each
        # word differ from the original's big-endian words, hence one byteswap for all of them.
        count = -(-self.length // _WORD)
        words = array("Q", self.bits.to_bytes(count * 8, "little"))
        words.byteswap()
        return base64.urlsafe_b64encode(self.length.to_bytes(8, "big") + words.tobytes()).decode()


def span(first: int, last: int, length: int) -> BitSet:
    """Return the set first..last (empty if first > last), restricted to 0..length-1."""
    first, last = max(first, 0), min(last, length - 1)
    bits = ((1 << last - first + 1) - 1) << first if first <= last else 0
    return BitSet(bits, length)


def decode(text: str) -> BitSet:
    """Parse the text form. Raises ValueError if it is malformed."""
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValueError(f"bitset is not base64: {exc}") from exc
    length, body = int.from_bytes(raw[:8], "big"), raw[8:]
    if len(raw) < 8 or len(body) != -(-length // _WORD) * 8:
        raise ValueError(f"bitset of length {length} has {len(body)} bytes of words")
    words = array("Q", body)
    words.byteswap()
    return BitSet(int.from_bytes(words.tobytes(), "little"), length)


def decode_length(text: str) -> int:
    """Return the length without decoding the words. Raises ValueError as `decode` does."""
    try:
        return int.from_bytes(base64.urlsafe_b64decode(text[:12])[:8], "big")
    except (binascii.Error, ValueError) as exc:
        raise ValueError(f"bitset is not base64: {exc}") from exc
