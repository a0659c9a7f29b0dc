"""JSON from outside: what is refused, and that everything else is read as by the library."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outside_json import read_json


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1,]", "NaN", "Infinity", "-Infinity", "1e999", '{"a": [-1e999]}'),
        *('"\\ud800"', '{"\\udfff": 1}', '"\ud800"', b'"\xed\xa0\x80"', b"\xff"),
        *("9" * 20, "9" * 5000, "-" + "9" * 4000, f"[{'9' * 30}]"),
        *("[" * 100_000, '{"a":' * 100_000, "[" * 300 + "]" * 300),
    ],
)
def test_what_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64) + 1, 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_everything_else_is_read(value: object) -> None:
    assert read_json(json.dumps(value)) == value
    assert read_json(json.dumps(value, ensure_ascii=False).encode()) == value
