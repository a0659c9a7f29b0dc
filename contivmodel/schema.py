"""JSON Schema of the models, from their fields and the rules of `contivmodel.checks` (pure).

`schemas` returns one schema for each model and each nested model, for an OpenAPI 3.1 document. A
field is required if its rule refuses an empty value. References between objects are not described.
"""

from collections.abc import Iterable
from typing import Any, Final, get_args, get_origin

from pydantic.fields import FieldInfo

from contivmodel.checks import FieldCheck
from contivmodel.objects import RestObject
from contivmodel.representation import fields_of
from contivmodel.wire import INT64_MAX, WireModel

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
BINARY: Final[Schema] = {"type": "string", "format": "binary"}
_INTEGER: Final[Schema] = {"type": "integer", "minimum": -INT64_MAX - 1, "maximum": INT64_MAX}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_REFERENCES: Final = "#/components/schemas/"


def reference(model: type[WireModel]) -> Schema:
    """Return a reference to a model's schema."""
    return {"$ref": _REFERENCES + name(model)}


def shown_reference(model: type[RestObject]) -> Schema:
    """Return a reference to the schema of an object as API v2 shows it."""
    return {"$ref": _REFERENCES + _shown_name(model)}


def shown_schemas(models: Iterable[type[RestObject]]) -> dict[str, Schema]:
    """Return name -> schema of objects as API v2 shows and takes them."""
    return {_shown_name(model): _shown_object(model) for model in models}


def named(called: str, schema: Schema) -> Schema:
    """Return a schema that is described once, by this name, wherever it is used."""
    return {**schema, "title": called}


def patch_reference(model: type[RestObject]) -> Schema:
    """Return a reference to the schema of a change of some fields of an object."""
    return {"$ref": f"{_REFERENCES}{_shown_name(model)}.patch"}


def patch_schemas(models: Iterable[type[RestObject]]) -> dict[str, Schema]:
    """Return name -> schema of changes of some fields (RFC 7396), as API v2 takes them."""
    return {f"{_shown_name(model)}.patch": _patch(model) for model in models}


def hoisted(schema: Any, into: dict[str, Schema]) -> Any:
    """Return a schema with references in place of its named parts, which are put `into` a table.

    Raises ValueError if one name stands for two schemas.
    """
    if isinstance(schema, list):
        return [hoisted(each, into) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: hoisted(value, into) for key, value in schema.items() if key != "title"}
    title = schema.get("title")
    if not isinstance(title, str):  # none, or a property of that name
        return inner if title is None else {**inner, "title": hoisted(title, into)}
    if into.setdefault(title, inner) != inner:
        raise ValueError(f"two schemas are called {title}")
    return {"$ref": _REFERENCES + title}


def name(model: type[WireModel]) -> str:
    """Return the name of a model's schema: the original's type name."""
    return model.go_name or model.__name__


def schemas(models: Iterable[type[WireModel]]) -> dict[str, Schema]:
    """Return name -> schema of the models and, before each, of those nested in it."""
    found: dict[str, Schema] = {}
    for model in models:
        if name(model) not in found:
            found |= schemas(_nested(model)) | {name(model): _object(model)}
    return found


def _nested(model: type[WireModel]) -> list[type[WireModel]]:
    return [
        kind
        for field in model.model_fields.values()
        for kind in (field.annotation, *get_args(field.annotation))
        if isinstance(kind, type) and issubclass(kind, WireModel)
    ]


def _object(model: type[WireModel]) -> Schema:
    fields = model.model_fields.values()
    schema: Schema = {
        "type": "object",
        "description": (model.__doc__ or "").partition("\n")[0],
        "properties": {str(field.alias): _field(field) for field in fields},
    }
    required = [str(field.alias) for field in fields if _is_required(field)]
    for field in fields:
        for check in _checks(field):
            if check.instead:
                # In words: generators of clients make no class of an object with alternatives.
                other = model.model_fields[check.instead].alias
                schema["description"] += f" It needs `{field.alias}` or `{other}`."
    return schema | {"required": required} if required else schema


def _shown_name(model: type[RestObject]) -> str:
    return f"{name(model)}.v2"


def _shown_object(model: type[RestObject]) -> Schema:
    names = fields_of(model)
    schema = _object(model)
    required = [each for each in schema.get("required", ()) if each in names]
    properties = {each: schema["properties"][each] for each in names}
    schema |= {"properties": properties, "additionalProperties": False}
    return schema | {"required": required} if required else schema


def _patch(model: type[RestObject]) -> Schema:
    # Without defaults: a client made from the document would send those of all other fields.
    fields = {each: dict(field) for each, field in _shown_object(model)["properties"].items()}
    for field in fields.values():
        field.pop("default", None)
    return {
        "type": "object",
        "description": f"fields of {model.kind} to change; null for the default",
        "properties": {
            each: {"anyOf": [field, {"type": "null"}]}
            for each, field in fields.items()
            if each != "key"
        },
        "additionalProperties": False,
    }


def _field(field: FieldInfo) -> Schema:
    schema = _type(field.annotation)
    for check in _checks(field):
        if check.longest is not None:
            schema["maxLength"] = check.longest
        if check.pattern is not None:
            optional = "?" if check.instead else ""
            schema["pattern"] = f"^(?:{check.pattern.pattern}){optional}$"
        if check.maximum is not None:
            schema["maximum"] = check.maximum
        if check.fill:
            schema["default"] = check.fill
    return schema


def _type(annotation: Any) -> Schema:
    if annotation is str:
        return dict(TEXT)
    if annotation is int:
        return dict(_INTEGER)
    if annotation is bool:
        return dict(_BOOLEAN)
    if get_origin(annotation) is list:
        return {"type": "array", "items": _type(get_args(annotation)[0])}
    if get_origin(annotation) is dict:
        return {"type": "object", "additionalProperties": _type(get_args(annotation)[1])}
    return reference(annotation)


def _is_required(field: FieldInfo) -> bool:
    return any(
        check.pattern is not None
        and not (check.fill or check.instead)
        and check.pattern.fullmatch("") is None
        for check in _checks(field)
    )


def _checks(field: FieldInfo) -> list[FieldCheck]:
    return [rule for rule in field.metadata if isinstance(rule, FieldCheck)]
