"""Reads the parameters behind a path's `?`, each of which may be given once. Pure."""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qs

from core.errors import Malformed
from core.numbers import bounded

MOST_PARAMETERS: Final = 64
DRY_RUN: Final = "dryRun"
_SHOWN: Final = 80
"""Characters of a wrong value in an error."""


def parameters(query: str, known: Collection[str]) -> dict[str, str]:
    """Return the values by name. Raises Malformed for unknown or repeated ones, or broken text."""
    try:
        found = parse_qs(
            query, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS
        )
    except ValueError as exc:
        raise Malformed(f"the query cannot be read: {exc}") from exc
    for name, values in found.items():
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise Malformed(f"unknown parameter {name}; known are {names}")
        if len(values) > 1:
            raise Malformed(f"parameter {name} is given {len(values)} times")
    return {name: values[0] for name, values in found.items()}


def number(name: str, text: str, least: int, greatest: int) -> int:
    """Return the number of a parameter. Raises Malformed."""
    found = bounded(text, least, greatest)
    if found is None:
        raise Malformed(
            f"parameter {name}={text[:_SHOWN]} is not a number from {least} to {greatest}"
        )
    return found


def is_dry_run(asked: Mapping[str, str]) -> bool:
    """Return whether a change is only to be tried. Raises Malformed for other texts."""
    match asked.get(DRY_RUN, "false"):
        case "true":
            return True
        case "false":
            return False
        case text:
            raise Malformed(f"parameter {DRY_RUN}={text} is neither true nor false")
