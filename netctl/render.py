"""Formats objects as the original does: aligned tables and indented JSON (pure).

Each command defines the columns of its table.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from core.ids import endpoint_name

_PADDING: Final = 2

Json = dict[str, Any]
Row = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFormat:
    """The format of a list of objects: the columns of its table, and the field with the name."""

    header: Row
    rule: Row
    name: str
    row: Callable[[Json], Row]
    wide: Sequence[tuple[str, str]] = ()
    """More columns, of the wide table: heads and fields."""

    def rows(self, objects: Sequence[Json], *, wide: bool) -> str:
        """Return the list as a table."""
        if not wide or not self.wide:
            return table([self.header, self.rule, *(self.row(found) for found in objects)])
        heads = tuple(head for head, _ in self.wide)
        lines = [(*self.header, *heads), (*self.rule, *("-" * len(head) for head in heads))]
        for found in objects:
            cells = (*self.row(found), *[""] * len(self.header))[: len(self.header)]
            lines.append((*cells, *(text(found, name) for _, name in self.wide)))
        return table(lines)


def text(found: Json, name: str) -> str:
    """Return a field as text, "" if missing; several values are joined by commas."""
    value = found.get(name, "")
    if isinstance(value, dict):
        return ",".join(f"{key}={held}" for key, held in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def pod_name(found: Json) -> str:
    """Return the name of an endpoint's pod, with its namespace, or of its container."""
    return endpoint_name(text(found, "containerName"), found.get("labels") or {})


def moment(found: Json, name: str) -> str:
    """Return a field with seconds since 1970 as a time, "-" if missing."""
    at = found.get(name)
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else "-"


def place(address: str, port: int) -> str:
    """Return an address and a port, 0 for none, as URLs have them."""
    # As `core.addresses.authority`, whose module takes longer to import than a command.
    if not port:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


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
