"""The schema version of the store, and the errors for another one."""

import pytest

from core import keys
from core.errors import Invalid, SchemaMismatch
from netmaster.view import View
from state import schema
from state.schema import OLDEST, VERSION, SchemaStamp

LOADING = SchemaStamp(VERSION, loading=True)


@pytest.mark.parametrize(
    "stamp", [schema.CURRENT, LOADING, SchemaStamp(7), SchemaStamp(3, came_from=2)]
)
def test_a_stamp_is_read_back(stamp: SchemaStamp) -> None:
    assert schema.decode(schema.encode(stamp)) == stamp


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"1", b"{}", b'{"version":"1"}', b'{"version":1,"loading":1}'),
        b'{"version":2,"from":"1"}',
    ],
)
def test_what_is_no_stamp_is_refused(value: bytes) -> None:
    with pytest.raises(Invalid, match=keys.SCHEMA):
        schema.decode(value)


def test_a_store_of_ours_or_without_a_stamp_is_fine() -> None:
    schema.check(None)
    for version in range(OLDEST, VERSION + 1):
        schema.check(schema.encode(SchemaStamp(version)))


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        (SchemaStamp(VERSION + 1), f"version {VERSION + 1}, .* reads {OLDEST} to {VERSION}: run"),
        (SchemaStamp(VERSION + 1), "newer release that wrote the store, or restore a backup"),
        (SchemaStamp(VERSION + 1, came_from=VERSION), "run the newer release"),
        (SchemaStamp(OLDEST - 1), "run an older release"),
        (LOADING, "netmaster load --replace"),
    ],
)
def test_another_store_is_refused_with_advice(stamp: SchemaStamp, text: str) -> None:
    values = {keys.SCHEMA: schema.encode(stamp), keys.obj("kind-of-tomorrow", "x"): b"?"}
    with pytest.raises(SchemaMismatch, match=text):
        View.load(values)
