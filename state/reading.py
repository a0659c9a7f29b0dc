"""Strict decoding of one JSON object: types are checked, unknown fields are ignored.

A missing or null field has its type's zero value, as in Go: records of older generations lack some
fields. Every error is `Invalid` and names the key and the field.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from math import inf, isfinite
from typing import Any, Final, TypeVar, cast

from pydantic_core import from_json

from core.errors import Invalid

E = TypeVar("E", bound=StrEnum)
_TEXT: Final = {str}


class RecordFields:
    """The fields of the JSON object stored under a key."""

    __slots__ = ("_fields", "key")

    def __init__(self, key: str, fields: Mapping[str, Any]) -> None:
        self.key = key
        self._fields = fields

    @classmethod
    def parse(cls, key: str, value: bytes) -> "RecordFields":
        """Return the fields of an object; Invalid if the value is not a JSON object."""
        # By default pydantic also keeps the last 16 384 short texts of the process: each pod brings
        # new ones, so that a daemon grows for tens of thousands of pods. Names are few.
        try:
            parsed = from_json(value, allow_inf_nan=False, cache_strings="keys")
        except ValueError as exc:
            raise Invalid(f"record {key}: not JSON: {exc}") from exc
        if not isinstance(parsed, dict):
            raise Invalid(f"record {key}: not a JSON object")
        return cls(key, parsed)

    def text(self, name: str) -> str:
        """Return a string."""
        value = self._fields.get(name)
        if value is None:
            return ""
        if type(value) is not str:
            raise self._wrong(name, "a string")
        return value

    def each_text(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return several strings, in the order of their names."""
        values = tuple(map(self._fields.get, names))
        if set(map(type, values)) == _TEXT:
            return cast("tuple[str, ...]", values)
        return tuple(map(self.text, names))

    def number(self, name: str) -> int:
        """Return a whole number."""
        value = self._fields.get(name)
        if value is None:
            return 0
        if type(value) is not int:
            raise self._wrong(name, "a whole number")
        return value

    def real(self, name: str) -> float:
        """Return a number."""
        value = self._fields.get(name)
        if value is None:
            return 0.0
        if type(value) not in {int, float}:
            raise self._wrong(name, "a number")
        try:
            found = float(value)
        except OverflowError:
            found = inf
        if not isfinite(found):
            raise self._wrong(name, "a number of 64 bits")
        return found

    def flag(self, name: str) -> bool:
        """Return a truth value."""
        value = self._fields.get(name)
        if value is None:
            return False
        if type(value) is not bool:
            raise self._wrong(name, "true or false")
        return value

    def choice(self, name: str, kind: type[E]) -> E:
        """Return a member of a closed set of strings."""
        try:
            return kind(self.text(name))
        except ValueError as exc:
            raise self._wrong(name, "one of " + ", ".join(kind)) from exc

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self._fields.get(name)
        if value is None:
            return ()
        if type(value) is not list or any(type(item) is not str for item in value):
            raise self._wrong(name, "a list of strings")
        return tuple(value)

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return an object of strings, or None."""
        value = self._fields.get(name)
        if value is None:
            return None
        if type(value) is not dict or any(type(item) is not str for item in value.values()):
            raise self._wrong(name, "an object of strings")
        return value

    def inner(self, name: str) -> "RecordFields":
        """Return the fields of an object within this one."""
        value = self._fields.get(name)
        if value is None:
            value = {}
        if type(value) is not dict:
            raise self._wrong(name, "an object")
        return RecordFields(self.key, value)

    def expect(self, name: str, wanted: str) -> None:
        """Raise Invalid unless a string field has the value its key demands."""
        if self.text(name) != wanted:
            raise self._wrong(name, json.dumps(wanted))

    def _wrong(self, name: str, wanted: str) -> Invalid:
        value = json.dumps(self._fields.get(name))
        return Invalid(f"record {self.key}: field {name} is {value:.80}, want {wanted}")
