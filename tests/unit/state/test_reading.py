"""Decoding of one JSON object: what is kept of it."""

import sys

from state.reading import RecordFields


def test_texts_are_not_kept() -> None:
    fields = RecordFields.parse("/key", b'{"id": "a text of one pod"}')
    text = fields.text("id")
    del fields
    fresh = "".join(["a text", " that nobody keeps"])
    # How many there are of a name alone differs from one Python to the next.
    assert sys.getrefcount(text) == sys.getrefcount(fresh)
