"""Reads and writes models as the original's Go `encoding/json` does.

A `WireModel` is a pydantic model whose fields have a wire name; all fields have defaults, as in Go.
`decode` reads a request body, `dump` and `dumps` write models. `contivmodel.checks` validates the
values.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from contivmodel.syntax import syntax_error
from core.errors import Invalid

# Clients of the original rely on what Go's decoder accepts and reports, so pydantic's validation is
# not used for requests. Go's rules, all visible to a client:
#
# * Unknown names are ignored. Names match exactly or, failing that, without regard to case.
# * null leaves a field at its zero value; a missing field has it too.
# * A number for an int field must be an integer literal within int64: 1.0 and 1e3 are errors, and
#   the text quotes the literal. So numbers stay literals (`_Number`) until a field reads them.
# * Syntax is checked before any type: a malformed text never reports a type mismatch.
# * On output, `omitempty` drops "", 0, empty lists and empty maps, but never a struct. Fields keep
#   the declared order; map keys are sorted.
# * <, >, & and two line separators are escaped, and lone surrogates become U+FFFD.

INT64_MAX: Final = (1 << 63) - 1
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class WireModel(BaseModel):
    """Base of all REST objects and bodies."""

    # Texts of answers are not kept: pydantic would keep 16 384 of them (`state.reading`).
    model_config = ConfigDict(
        populate_by_name=True, strict=True, extra="ignore", frozen=True, cache_strings="keys"
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the model itself: it is never changed."""
        return self

    go_package: ClassVar[str] = "contivModel"
    go_name: ClassVar[str] = ""
    """The original's type name if it is not the class name; used in error texts."""


M = TypeVar("M", bound=WireModel)


def field(name: str, *, default: Any = "", default_factory: Callable[[], Any] | None = None) -> Any:
    """Declare a field by its wire name."""
    if default_factory is not None:
        return Field(default_factory=default_factory, alias=name)
    return Field(default=default, alias=name)


def decode(model: type[M], body: bytes) -> M:
    """Decode a request body. Raises Invalid with Go's text."""
    text = body.decode("utf-8", "replace")
    try:
        raw = _DECODER.decode(text)
    except (ValueError, RecursionError) as exc:
        raise Invalid(syntax_error(text)) from exc
    return _read_model(model, raw, "", ())


@cache
def blank(model: type[WireModel]) -> Any:
    """Return a model with all defaults. It is shared: its lists and maps must not be modified."""
    return model()


def dump(model: WireModel) -> dict[str, Any]:
    """Return the model as plain data, in wire order and without empty values."""
    values = ((name, getattr(model, attribute)) for attribute, name in _layout(type(model)))
    return {name: _plain(value) for name, value in values if value}  # a model is never empty


def dumps(value: Any) -> bytes:
    """Return JSON as Go writes it; `value` may contain models."""
    return escaped(text(value)).encode()


def text(value: Any) -> str:
    """Return what `dumps` does, before `escaped`."""
    if isinstance(value, WireModel):  # plain data needs no encoder that calls back
        return to_json(dump(value)).decode()
    return _ENCODER.encode(value)


def escaped(text: str) -> str:
    """Return JSON text with the additional characters escaped that Go escapes."""
    for raw, written in _ESCAPES:
        text = text.replace(raw, written)
    return text


class _Number(str):
    """A JSON number as its literal, which Go's errors quote."""

    __slots__ = ()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant
)


def _plain(value: Any) -> Any:
    if isinstance(value, WireModel):
        return dump(value)
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return list(map(_plain, value))
    return value


def _as_plain(value: Any) -> Any:
    return dump(value) if isinstance(value, WireModel) else list(value)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_as_plain)
_ESCAPES: Final = (
    ("<", "\\u003c"),
    (">", "\\u003e"),
    ("&", "\\u0026"),
    ("\u2028", "\\u2028"),
    ("\u2029", "\\u2029"),
)

_Reader = Callable[[Any, str, tuple[str, ...]], Any]
"""(JSON value, name of the enclosing struct, path of field names) -> value of the field."""


@cache
def _layout(model: type[WireModel]) -> tuple[tuple[str, str], ...]:
    return tuple((attribute, str(f.alias)) for attribute, f in model.model_fields.items())


@cache
def _table(model: type[WireModel]) -> Mapping[str, tuple[str, _Reader, str, tuple[str, ...]]]:
    """Return wire name, as declared and in lower case -> attribute and reader of the field."""
    table: dict[str, tuple[str, _Reader, str, tuple[str, ...]]] = {}
    for attribute, f in model.model_fields.items():
        name = str(f.alias)
        entry = (attribute, _reader(f.annotation), model.go_name or model.__name__, (name,))
        table[name.lower()] = entry
        table[name] = entry
    return table


def _reader(annotation: Any) -> _Reader:
    plain = _PLAIN.get(annotation)
    if plain is not None:
        return plain
    if get_origin(annotation) is list:
        return _read_list
    if get_origin(annotation) is dict:
        element = get_args(annotation)[1]
        if element is str:
            return _read_texts
        return lambda raw, struct, path: _read_map(element, raw, struct, path)
    nested: type[WireModel] = annotation
    return lambda raw, struct, path: _read_model(nested, raw, struct, path)


def _read_model(model: type[M], raw: Any, struct: str, path: tuple[str, ...]) -> M:
    defaults: M = blank(model)
    if raw is None:
        return defaults
    if type(raw) is not dict:
        raise _mismatch(raw, struct, path, _go_type(model))
    table = _table(model)
    values: dict[str, Any] = {}
    for name, value in raw.items():
        entry = table.get(name) or table.get(name.lower())
        if entry is not None and value is not None:
            attribute, read, inner, leaf = entry
            values[attribute] = read(value, inner, (*path, *leaf) if path else leaf)
    return defaults.model_copy(update=values)


def _read_text(raw: Any, struct: str, path: tuple[str, ...]) -> str:
    if type(raw) is not str:
        raise _mismatch(raw, struct, path, "string")
    return raw if raw.isascii() else _SURROGATE.sub("\ufffd", raw)


def _read_int(raw: Any, struct: str, path: tuple[str, ...]) -> int:
    if type(raw) is _Number:
        number = int(raw) if _INTEGER.fullmatch(raw) else None
        if number is not None and -INT64_MAX - 1 <= number <= INT64_MAX:
            return number
        raise _mismatch_of(f"number {raw}", struct, path, "int")
    raise _mismatch(raw, struct, path, "int")


def _read_bool(raw: Any, struct: str, path: tuple[str, ...]) -> bool:
    if type(raw) is not bool:
        raise _mismatch(raw, struct, path, "bool")
    return raw


_PLAIN: Final[Mapping[Any, _Reader]] = {str: _read_text, int: _read_int, bool: _read_bool}


def _read_list(raw: Any, struct: str, path: tuple[str, ...]) -> list[str]:
    if type(raw) is not list:
        raise _mismatch(raw, struct, path, "[]string")
    return ["" if item is None else _read_text(item, struct, path) for item in raw]


def _read_map(
    element: type[WireModel], raw: Any, struct: str, path: tuple[str, ...]
) -> dict[str, WireModel]:
    if type(raw) is not dict:
        raise _mismatch(raw, struct, path, f"map[string]{_go_type(element)}")
    return {
        _SURROGATE.sub("\ufffd", key): _read_model(element, value, struct, path)
        for key, value in raw.items()
    }


def _read_texts(raw: Any, struct: str, path: tuple[str, ...]) -> dict[str, str]:
    if type(raw) is not dict:
        raise _mismatch(raw, struct, path, "map[string]string")
    return {
        _SURROGATE.sub("\ufffd", key): "" if value is None else _read_text(value, struct, path)
        for key, value in raw.items()
    }


def _go_type(model: type[WireModel]) -> str:
    return f"{model.go_package}.{model.go_name or model.__name__}"


def _mismatch(raw: Any, struct: str, path: tuple[str, ...], wanted: str) -> Invalid:
    kinds = {_Number: "number", str: "string", bool: "bool", list: "array", dict: "object"}
    return _mismatch_of(kinds[type(raw)], struct, path, wanted)


def _mismatch_of(got: str, struct: str, path: tuple[str, ...], wanted: str) -> Invalid:
    into = f"struct field {struct}.{'.'.join(path)} of type" if path else "value of type"
    return Invalid(f"json: cannot unmarshal {got} into Go {into} {wanted}")
