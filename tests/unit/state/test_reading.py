"""Decoding of one JSON object: what is kept of it."""

import sys

from state.reading import RecordFields

ONE_NAME_AND_ITS_ARGUMENT = 2


def test_texts_are_not_kept() -> None:
    fields = RecordFields.parse("/key", b'{"id": "a text of one pod"}')
    text = fields.text("id")
    del fields
    assert sys.getrefcount(text) == ONE_NAME_AND_ITS_ARGUMENT
