"""Objects as text: aligned tables and indented JSON, as the original prints them.

Pure: rows or data in, text out. Which columns a table has is its command's business.
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
class Listing:
    """How a list of one kind of object is shown: as JSON, as names or as a table."""

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
    """Return a field as text, "" if the server left it out; several values are joined by commas."""
    value = found.get(name, "")
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def moment(found: Json, name: str) -> str:
    """Return a field that holds seconds since 1970 as a time, "-" if the server left it out."""
    at = found.get(name)
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else "-"


def bracketed(found: Json, name: str) -> str:
    """Return a field of several values in brackets, blanks between them."""
    return f"[{' '.join(map(str, found.get(name, ())))}]"


def table(rows: Sequence[Row]) -> str:
    """Return the rows in aligned columns, as Go's `tabwriter` does with two blanks of padding.

    The last cell of a row is never padded: a row that ends in an empty cell has blanks there.
    A column reaches over adjacent rows that have it, so a shorter row ends it.
    """
    widths: list[list[int]] = [[] for _ in rows]
    for column in range(max((len(row) - 1 for row in rows), default=0)):
        padded = [len(row) - 1 > column for row in rows]
        for reaches, block in groupby(range(len(rows)), padded.__getitem__):
            members = list(block)
            if reaches:
                width = max(len(rows[i][column]) for i in members) + _PADDING
                for i in members:
                    widths[i].append(width)
    return "".join(_line(row, w) for row, w in zip(rows, widths, strict=True))


def _line(row: Row, widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
    return "".join([*padded, *row[len(widths) :]]) + "\n"


def indented(data: Any) -> str:
    """Return data as JSON of several lines, in the order it came."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
