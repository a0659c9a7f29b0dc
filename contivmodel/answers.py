"""JSON Schema of answers, from the TypedDicts as which the answers are built (pure).

In comes a TypedDict; out comes its schema for an OpenAPI document. A field's description and bounds
are in its type, as `Annotated[str, Field(description=...)]`. A class is described once, by its name
or the `title` of its configuration; one whose name begins with `_` is described where it is used.
Types alone tie an answer to its schema: nothing is checked, and nothing copied, when one is sent.
"""

from functools import cache
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import override

from contivmodel.schema import Schema

Count = Annotated[int, Field(ge=0)]
"""A number of things."""

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A moment as RFC 3339 writes it."""

_PARTS: Final = "#/$defs/"


class _Untitled(GenerateJsonSchema):
    """Leaves the titles of fields out: `contivmodel.schema.hoisted` takes a title for a name."""

    @override
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_of(answer: type[Any], **members: Schema) -> Schema:
    """Return the schema of a TypedDict; `members` are those of fields whose type says nothing.

    Raises KeyError for a member that is no field.
    """
    kind: Any = answer  # a class, which can be hashed
    whole = _made(kind)
    if unknown := sorted(members.keys() - whole.get("properties", {}).keys()):
        raise KeyError(f"{answer} has no field {unknown[0]}")
    return {**whole, "properties": {**whole["properties"], **members}} if members else whole


@cache
def _made(answer: Any) -> Schema:
    made = TypeAdapter(answer).json_schema(mode="serialization", schema_generator=_Untitled)
    whole: Schema = _whole(made, made.pop("$defs", {}))
    return whole


def described(answer: Schema | type[Any]) -> Schema:
    """Return the schema of an answer that is given as its type, or as its schema."""
    return answer if isinstance(answer, dict) else schema_of(answer)


def one_of(*texts: str) -> Any:
    """Return the annotation of a text that is one of these."""
    return Field(json_schema_extra={"enum": [*texts]})


def _whole(schema: Any, parts: dict[str, Any]) -> Any:
    """Return a schema with its parts in it, named ones with their titles."""
    if isinstance(schema, list):
        return [_whole(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = _whole(parts[schema["$ref"].removeprefix(_PARTS)], parts)
        return {**part, **{name: value for name, value in schema.items() if name != "$ref"}}
    whole = {name: _whole(value, parts) for name, value in schema.items()}
    if isinstance(whole.get("title"), str) and whole["title"].startswith("_"):
        del whole["title"]
    if whole.get("additionalProperties") is True:
        del whole["additionalProperties"]
    return whole
