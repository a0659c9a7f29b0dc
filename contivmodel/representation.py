"""Objects as API v2 shows and takes them: all fields of v1's models by v1's names, without links.

In comes a body (`read`) or a merge patch (`patched`); out comes an object whose fields are all
valid, or every fault of it at once. Unlike `contivmodel.wire`, which reads as Go does for v1,
nothing is ignored and nothing is converted. `shown` and `etag` go the other way. Pure.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, NoReturn, TypeVar

from pydantic import ValidationError

from contivmodel.checks import faults, filled
from contivmodel.objects import RestObject
from contivmodel.wire import INT64_MAX, dumps
from core.errors import Invalid, Malformed

LINKS: Final = frozenset({"links", "link-sets"})
"""What v1 derives from other objects; v2 answers such questions by filters."""
NAMING: Final = frozenset({"key", "label"})
"""The fields that name what is shown: of objects, and of hosts."""
MOST_FAULTS: Final = 32
Json = dict[str, Any]
M = TypeVar("M", bound=RestObject)


class InvalidFields(Invalid):
    """Fields of an object are unknown or invalid; `faults` are (field, what is wrong)."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Posted(Generic[M]):
    """A valid object that a client sent, and the attributes that it named."""

    obj: M
    named: frozenset[str]


@cache
def fields_of(model: type[RestObject]) -> Mapping[str, str]:
    """Return wire name -> attribute of the fields that v2 shows, `key` first."""
    return {
        str(field.alias): attribute
        for attribute, field in model.model_fields.items()
        if field.alias not in LINKS
    }


def shown(obj: RestObject) -> Json:
    """Return an object as v2 shows it, empty fields included."""
    return {name: getattr(obj, attribute) for name, attribute in fields_of(type(obj)).items()}


def etag(obj: RestObject) -> str:
    """Return the strong entity tag of an object: a digest of what v2 shows of it."""
    # Of the content, not a revision of the store. So it is known before the commit, it is the same
    # from every master, and a store that was loaded from a backup has it too.
    return f'"{hashlib.sha256(dumps(shown(obj))).hexdigest()[:24]}"'


def same(one: RestObject, other: RestObject) -> bool:
    """Return whether v2 shows two objects alike, but for the key's own field."""
    return all(
        getattr(one, attribute) == getattr(other, attribute)
        for name, attribute in fields_of(type(one)).items()
        if name != "key"
    )


def read(model: type[M], body: bytes, key: str | None = None) -> Posted[M]:
    """Return the object of a body. `key` is that of the path; its parts need not be repeated.

    Raises Malformed for what is not a JSON object, InvalidFields for unknown and invalid fields.
    """
    return _checked(model, _with_key(model, parsed(body), key), key)


def loaded(model: type[M], item: Json) -> M:
    """Return the object that netmaster shows: not checked, without fields of a newer release."""
    return model.model_validate(item, strict=True, by_alias=True, by_name=False)


def patched(stored: M, body: bytes) -> Posted[M]:
    """Return a stored object changed by a merge patch (RFC 7396). Raises as `read`."""
    patch = parsed(body)
    names = fields_of(type(stored))
    # null removes a field, which then has its default; in v2 all fields have one.
    kept = {name: value for name, value in shown(stored).items() if name not in patch}
    changed = {name: patch[name] for name in patch if patch[name] is not None or name not in names}
    posted = _checked(type(stored), kept | changed, stored.key)
    return Posted(posted.obj, frozenset(names[name] for name in patch if name != "key"))


def parsed(body: bytes) -> Json:
    """Return the JSON object of a body. Raises Malformed, for a field that is named twice too."""
    try:
        found = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
        json.dumps(found, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError) as exc:
        raise Malformed(f"the body is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise Malformed("the body is not a JSON object")
    return found


def _checked(model: type[M], fields: Json, key: str | None) -> Posted[M]:
    names = fields_of(model)
    wrong = [(name, "there is no such field") for name in fields if name not in names]
    known = {name: value for name, value in fields.items() if name in names}
    try:
        obj = filled(model.model_validate(known, strict=True, by_alias=True, by_name=False))
    except ValidationError as exc:
        wrong += [(_pointer(each["loc"]), each["msg"]) for each in exc.errors(include_url=False)]
        raise InvalidFields(wrong[:MOST_FAULTS]) from exc
    wrong += [(name, _numeral(value)) for name, value in known.items() if _numeral(value)]
    wrong += faults(obj)
    made = obj.object_key()
    if not wrong and obj.key not in {"", made}:
        wrong.append(("key", f"{obj.key} differs from {made}, which the fields make"))
    if not wrong and key not in {None, made}:
        wrong.append(("key", f"{made}, which the fields make, differs from {key} of the path"))
    if wrong:
        raise InvalidFields(wrong[:MOST_FAULTS])
    named = frozenset(names[name] for name in known if name != "key")
    return Posted(obj.model_copy(update={"key": made}), named)


def _with_key(model: type[RestObject], fields: Json, key: str | None) -> Json:
    """Return fields with those that the path's key names, where the body has none of them."""
    parts = key.split(":") if key is not None else []
    names = [str(model.model_fields[attribute].alias) for attribute in model.key_fields]
    if len(parts) != len(names):
        return fields
    return dict(zip(names, parts, strict=True)) | fields


def _numeral(value: Any) -> str:
    is_large = isinstance(value, int) and not -INT64_MAX - 1 <= value <= INT64_MAX
    return "not a number of 64 bits" if is_large else ""


def _pointer(location: tuple[str | int, ...]) -> str:
    return "/".join(map(str, location))


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field is named twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def selected(item: Mapping[str, Any], names: frozenset[str]) -> Mapping[str, Any]:
    """Return the named fields of what is shown, and what names it; all of them without names."""
    return {name: item[name] for name in item if name in names | NAMING} if names else item


def names_of_fields(text: str, known: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a parameter `fields=a,b`. Raises Malformed for one that is not known."""
    names = frozenset(text.split(",")) if text else frozenset()
    if unknown := sorted(names - known.keys()):
        raise Malformed(f"parameter fields={unknown[0]}: known are {', '.join(known)}")
    return names
