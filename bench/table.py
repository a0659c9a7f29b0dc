"""The table of `make bench`: each figure beside a reference measured in the same run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison. `ratio` is how much better ours is: 1.0 is as good as the reference."""

    what: str
    ours: float
    unit: str
    reference: float | None = None
    ratio: float | None = None
    note: str = ""


def at(ordered: Sequence[float], rank: float) -> float:
    """Return the value at a rank (0.5 is the median) of a sorted series."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * rank))]


def show(rows: Iterable[Row]) -> None:
    """Print the rows, one per line as they come."""
    print(f"{'what':<58}{'ours':>12}{'reference':>12} {'unit':<6}{'ratio':>7}  note")
    for row in rows:
        print(
            f"{row.what:<58}{row.ours:>12.4g}{_number(row.reference):>12} {row.unit:<6}"
            f"{_number(row.ratio):>7}  {row.note}",
            flush=True,
        )


def _number(value: float | None) -> str:
    return f"{value:.4g}" if value is not None else "-"
