"""How a command shows what it found: as a table, JSON, YAML, or by a path into it.

In come the flags `-o`, `-j`, `-q` and `--sort` (`netctl.commands.flags`) and the data; out comes
text. Pure; knows no command and no flag's name but for its messages.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from netctl.failure import HELP, CommandFailed
from netctl.render import Json, ListFormat, indented, table, text

_TABLES: Final = ("table", "wide")
_JSONPATH: Final = "jsonpath="
LINES: Final = "jsonl"
"""JSON, a line for each item."""

FORMS: Final = (*_TABLES, "json", LINES, "yaml", f"{_JSONPATH}TEMPLATE")
"""What `-o` may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """The flags of a command about what it prints."""

    form: str = ""
    """What `-o` says; "" for what the command prints without."""
    quiet: bool = False
    sort: str = ""

    def of_list(self, found: Sequence[Json], shape: ListFormat) -> str:
        """Return a list as text. Raises CommandFailed."""
        if self.sort:
            found = _sorted(found, shape, self.sort)
        if self._is_data() or not self.quiet:
            return self.of_data(list(found), lambda: shape.rows(found, wide=self.form == "wide"))
        return "".join(f"{text(one, shape.name)}\n" for one in found)

    def of_object(self, found: Json) -> str:
        """Return what an inspection found as text: JSON by default. Raises CommandFailed."""
        if self.form in _TABLES:
            return table([("Field", "Value"), ("-----", "-----"), *_leaves(found)])
        return self.of_data(found, lambda: indented(found))

    def of_data(self, found: Any, plain: Callable[[], str]) -> str:
        """Return any data as text, by default as `plain` does. Raises CommandFailed."""
        if self.form in {"", *_TABLES}:
            return plain()
        if self.form == "json":
            return indented(found)
        if self.form == LINES:
            items = found if isinstance(found, list) else [found]
            return "".join(f"{json.dumps(one)}\n" for one in items)
        if self.form == "yaml":
            import yaml  # noqa: PLC0415 - takes longer to import than most commands to run

            return str(yaml.safe_dump(found, sort_keys=False, allow_unicode=True))
        from netctl.jsonpath import filled  # noqa: PLC0415 - for this form only

        return filled(self.form.removeprefix(_JSONPATH), found) + "\n"

    def _is_data(self) -> bool:
        return self.form not in {"", *_TABLES}


def form_of(given: str) -> str:
    """Return what `-o` says. Raises CommandFailed for anything but a form."""
    if given not in FORMS[:-1] and not given.startswith(_JSONPATH):
        raise CommandFailed(f"-o {given}: it must be one of {', '.join(FORMS)}", HELP)
    return given


def _sorted(found: Sequence[Json], shape: ListFormat, by: str) -> list[Json]:
    """Return a list by a column or a field; `-` before the name turns the order round."""
    name = by.removeprefix("-")
    columns = [column.strip().casefold() for column in shape.header]
    if name.casefold() in columns and name:
        at = columns.index(name.casefold())
        cells = [(*shape.row(one), *[""] * len(columns))[at] for one in found]
    elif any(name in one for one in found) or not found:
        cells = [text(one, name) for one in found]
    else:
        known = ", ".join(filter(None, (column.strip() for column in shape.header)))
        raise CommandFailed(f"--sort {by}: no such column or field; columns are {known}", HELP)
    order = sorted(range(len(cells)), key=lambda at: _natural(cells[at]), reverse=by[:1] == "-")
    return [found[at] for at in order]


def _natural(cell: str) -> list[tuple[int, str]]:
    """Return a key by which numbers within words count as numbers: h2 before h10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", cell)
    return [(int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts]


def _leaves(found: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(found, dict) and found:
        return [
            leaf
            for name, value in found.items()
            for leaf in _leaves(value, f"{path}.{name}" if path else name)
        ]
    if isinstance(found, list) and any(isinstance(one, (dict, list)) for one in found):
        return [leaf for at, one in enumerate(found) for leaf in _leaves(one, f"{path}[{at}]")]
    if isinstance(found, list):
        return [(path, ",".join(map(str, found)))]
    return [(path, "" if found in ({}, None) else str(found))]
