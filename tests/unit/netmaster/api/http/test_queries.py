"""Parameters of a path."""

import pytest

from core.errors import Malformed
from netmaster.api.http.queries import parameters


def test_values_are_read_by_name() -> None:
    assert parameters("a=1&b=%41", {"a", "b", "c"}) == {"a": "1", "b": "A"}
    assert parameters("a=", {"a"}) == {"a": ""}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("d=1", "unknown parameter d; known are a, b"),
        ("a=1&a=2", "parameter a is given 2 times"),
        ("a=%ff", "the query cannot be read"),
        ("&".join(["a=1"] * 65), "the query cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(query: str, text: str) -> None:
    with pytest.raises(Malformed, match=text):
        parameters(query, {"a", "b"})
