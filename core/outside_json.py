"""Reads JSON that comes from outside, within limits. Pure.

In come bytes of a socket or a file that others write; out comes a value whose texts can be encoded
and whose numbers can be calculated with, or ValueError, which the caller turns into its own error.
The standard library's parser ends deep nesting in RecursionError, and passes NaN, infinities and
halves of surrogate pairs, which fail later, in whoever uses them.
"""

from math import isfinite
from typing import Any, Final

from pydantic_core import from_json

GREATEST: Final = 1 << 64
"""What a whole number must be below."""


DEEPEST: Final = 200
"""How many lists and objects may be inside of each other; the parser goes no deeper."""


def read_json(text: bytes | str, *, deepest: int = DEEPEST) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for what is no JSON, is nested more than `deepest` levels deep, or has a
    number that is not finite or beyond 64 bits, or a text that is no Unicode.
    """
    # The parser refuses depth and broken text itself; it reads 1e999 as an infinity.
    raw = text.encode() if isinstance(text, str) else text
    value = from_json(raw, allow_inf_nan=False, cache_strings="keys")
    level, depth = [value], 0
    while level:
        if depth > deepest:
            raise ValueError(f"more than {deepest} levels")
        depth += 1
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
            elif isinstance(one, float) and not isfinite(one):
                raise ValueError("a number without end")
            elif isinstance(one, int) and abs(one) >= GREATEST:
                raise ValueError("a number beyond 64 bits")
        level = below
    return value
