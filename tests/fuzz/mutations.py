"""Makes inputs from seeds: changes bytes, and puts what parsers dislike for parts of JSON."""

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_PART: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null|[][{},:]'
)
TOKENS: Final = (
    *(b"null", b"true", b"false", b"0", b"-1", b"1.5", b"1e999", b"-1e999", b"NaN", b"Infinity"),
    *(b"65535", b"65536", b"4294967296", b"18446744073709551616", b"9" * 400, b"9" * 5000),
    *(b"0" * 40 + b"7", b"1e-400", b"[]", b"{}", b'[""]', b'{"":{}}', b"[null]", b'[{"a":[]}]'),
    *(b'""', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\xed\xa0\x80"', b'"\xff"'),
    *(b'"' + b"x" * 3000 + b'"', b'"../../x"', b'"a/b:c"', b'"None"', b'"10.0.0.1/33"'),
    *(b'"010.1.1.1"', b'"::ffff:1.2.3.4%lo"', b'"1.2.3.4"', b'"\xe2\x80\xae"', b'"%s%n"'),
    *(b"[" * 300, b"[" * 40 + b"]" * 40, b'{"a":' * 300, b"[" * 20_000, b'"\n"', b'"\\x"'),
)
NUMBERS: Final = (0, 1, 7, 8, 9, 19, 20, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF)


@lru_cache(4096)
def _parts(seed: bytes) -> Sequence[tuple[int, int]]:
    return [match.span() for match in _PART.finditer(seed)]


def mutated(choices: random.Random, seeds: Sequence[bytes], *, text: bool) -> bytes:
    """Return an input made of the seeds; of `text` the parts of JSON are known."""
    data = choices.choice(seeds)
    for _ in range(choices.choice((1, 1, 1, 2, 2, 3, 5))):
        if text and choices.random() < 0.85:
            data = _other_part(choices, data)
        else:
            data = choices.choice(_CHANGES)(choices, data, seeds)
    return data


def _other_part(choices: random.Random, data: bytes) -> bytes:
    parts = _parts(data) if len(data) < 5000 else ()
    if not parts:
        return choices.choice(TOKENS)
    start, end = choices.choice(parts)
    kind = choices.random()
    if kind < 0.7:
        return data[:start] + choices.choice(TOKENS) + data[end:]
    if kind < 0.85:
        other_start, other_end = choices.choice(parts)
        return data[:start] + data[other_start:other_end] + data[end:]
    return data[:start] + data[end:]


def _flip(choices: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    if not data:
        return bytes((choices.randrange(256),))
    at = choices.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << choices.randrange(8)),)) + data[at + 1 :]


def _byte(choices: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = choices.randrange(len(data) + 1)
    return data[:at] + bytes((choices.randrange(256),)) + data[at + choices.randrange(2) :]


def _number(choices: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    """Overwrite a number of one, two or four bytes: lengths and counts are among them."""
    size = choices.choice((1, 1, 2, 2, 4))
    value = choices.choice(NUMBERS) & (1 << 8 * size) - 1
    at = choices.randrange(len(data) + 1)
    return data[:at] + value.to_bytes(size) + data[at + size :]


def _cut(choices: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    start, end = sorted(choices.randrange(len(data) + 1) for _ in range(2))
    return data[:start] if choices.random() < 0.5 else data[:start] + data[end:]


def _again(choices: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    start, end = sorted(choices.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * choices.choice((1, 2, 8)) + data[end:]


def _spliced(choices: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = choices.choice(seeds)
    return data[: choices.randrange(len(data) + 1)] + other[choices.randrange(len(other) + 1) :]


def _token(choices: random.Random, data: bytes, _seeds: Sequence[bytes]) -> bytes:
    at = choices.randrange(len(data) + 1)
    return data[:at] + choices.choice(TOKENS) + data[at:]


_CHANGES: Final = (_flip, _byte, _number, _number, _cut, _again, _spliced, _token)
