"""The schema version of the store, and the errors for another one."""

import pytest

from core import keys
from core.errors import Invalid, SchemaMismatch
from netmaster.plan import schema as stamping
from netmaster.view import View
from state import schema
from state.schema import VERSION, SchemaStamp
from tests.unit.netmaster.scene import Scene


@pytest.mark.parametrize("stamp", [schema.CURRENT, schema.LOADING, SchemaStamp(7)])
def test_a_stamp_is_read_back(stamp: SchemaStamp) -> None:
    assert schema.decode(schema.encode(stamp)) == stamp


@pytest.mark.parametrize(
    "value", [b"", b"1", b"{}", b'{"version":"1"}', b'{"version":1,"loading":1}']
)
def test_what_is_no_stamp_is_refused(value: bytes) -> None:
    with pytest.raises(Invalid, match=keys.SCHEMA):
        schema.decode(value)


def test_a_store_of_ours_or_without_a_stamp_is_fine() -> None:
    schema.check(None)
    schema.check(schema.encode(schema.CURRENT))


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        (SchemaStamp(VERSION + 1), "run the newer release"),
        (SchemaStamp(VERSION - 1), "run the older release"),
        (schema.LOADING, "netmaster load --replace"),
    ],
)
def test_another_store_is_refused_with_advice(stamp: SchemaStamp, text: str) -> None:
    values = {keys.SCHEMA: schema.encode(stamp), keys.obj("kind-of-tomorrow", "x"): b"?"}
    with pytest.raises(SchemaMismatch, match=text):
        View.load(values)


def test_the_first_leader_stamps_the_store() -> None:
    scene = Scene()
    scene.do(stamping.startup)
    assert scene.view.schema == schema.CURRENT
    assert scene.store[keys.SCHEMA] == schema.encode(schema.CURRENT)
    assert stamping.startup(scene.view).writes == ()
