"""Schemas of answers: what the types say, once for each name."""

from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from contivmodel.answers import Count, Moment, described, one_of, schema_of
from contivmodel.schema import hoisted


class _Inner(TypedDict):
    title: str
    kind: Annotated[str, one_of("a", "b")]


@with_config(ConfigDict(title="Part.v2"))
class Part(TypedDict):
    """A part."""

    at: Moment
    inner: _Inner


class Whole(TypedDict):
    """All of it."""

    count: Annotated[Count, Field(description="how many")]
    parts: list[Part]
    by_name: dict[str, Part]
    verdict: Literal["yes", "no"]
    rest: NotRequired[dict[str, Any]]


PART = {
    "type": "object",
    "description": "A part.",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "inner": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "kind": {"type": "string", "enum": ["a", "b"]},
            },
            "required": ["title", "kind"],
        },
    },
    "required": ["at", "inner"],
}


def test_types_become_a_schema_with_named_parts() -> None:
    found: dict[str, Any] = {}
    assert hoisted(schema_of(Whole), found) == {"$ref": "#/components/schemas/Whole"}
    part = {"$ref": "#/components/schemas/Part.v2"}
    assert found == {
        "Part.v2": PART,
        "Whole": {
            "type": "object",
            "description": "All of it.",
            "properties": {
                "count": {"type": "integer", "minimum": 0, "description": "how many"},
                "parts": {"type": "array", "items": part},
                "by_name": {"type": "object", "additionalProperties": part},
                "verdict": {"type": "string", "enum": ["yes", "no"]},
                "rest": {"type": "object"},
            },
            "required": ["count", "parts", "by_name", "verdict"],
        },
    }


def test_members_stand_for_fields_that_say_nothing() -> None:
    text = {"type": "string"}
    assert schema_of(Whole, rest=text)["properties"]["rest"] == text
    assert schema_of(Whole)["properties"]["rest"] == {"type": "object"}
    with pytest.raises(KeyError, match="no field other"):
        schema_of(Whole, other=text)


def test_an_answer_is_given_as_its_type_or_its_schema() -> None:
    assert described({"type": "string"}) == {"type": "string"}
    assert described(list[Part])["items"] == schema_of(Part)
