"""Formats objects as the original does: aligned tables and indented JSON (pure).

Each command defines the columns of its table.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

_PADDING: Final = 2

Json = dict[str, Any]
Row = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFormat:
    """The format of a list of objects: as JSON, as names, or as a table with these columns."""

    header: Row
    rule: Row
    name: str
    row: Callable[[Json], Row]

    def show(self, objects: Sequence[Json], *, as_json: bool, quiet: bool) -> str:
        """Return the list as text; JSON wins over names, names win over the table."""
        if as_json:
            return indented(list(objects))
        if quiet:
            return "".join(f"{text(found, self.name)}\n" for found in objects)
        return table([self.header, self.rule, *(self.row(found) for found in objects)])


def text(found: Json, name: str) -> str:
    """Return a field as text, "" if missing; several values are joined by commas."""
    value = found.get(name, "")
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def moment(found: Json, name: str) -> str:
    """Return a field with seconds since 1970 as a time, "-" if missing."""
    at = found.get(name)
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else "-"


def bracketed(found: Json, name: str) -> str:
    """Return the values of a field in brackets, separated by blanks."""
    return f"[{' '.join(map(str, found.get(name, ())))}]"


def table(rows: Sequence[Row]) -> str:
    """Return the rows in aligned columns, as Go's `tabwriter` does with two blanks of padding.

    The last cell of a row is not padded: a row that ends in an empty cell has trailing blanks.
    """
    # In tabwriter a column is a block of adjacent rows that have that cell, not the whole table: a
    # shorter row ends the block, and the rows below it are aligned anew.
    widths: list[list[int]] = [[] for _ in rows]
    for column in range(max((len(row) - 1 for row in rows), default=0)):
        padded = [len(row) - 1 > column for row in rows]
        for has_cell, block in groupby(range(len(rows)), padded.__getitem__):
            members = list(block)
            if has_cell:
                width = max(len(rows[i][column]) for i in members) + _PADDING
                for i in members:
                    widths[i].append(width)
    return "".join(_line(row, w) for row, w in zip(rows, widths, strict=True))


def _line(row: Row, widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
    return "".join([*padded, *row[len(widths) :]]) + "\n"


def indented(data: Any) -> str:
    """Return data as indented JSON, with fields in their given order."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
