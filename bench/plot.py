"""Draws what `bench.scale` measured, one small plot for each figure, over the number of agents.

Needs matplotlib, which `make bench-scale` installs from `bench/requirements.lock`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

COLUMNS: Final = 5
_LINE: Final = "#2a78d6"
_TEXT: Final = "#52514e"
_GRID: Final = "#e1e0d9"


def write(path: Path, sizes: Sequence[int], series: Mapping[str, Sequence[float]]) -> None:
    """Write a picture: for each title the values at the sizes, in the same order."""
    mpl.rcParams["svg.hashsalt"] = mpl.rcParams["svg.fonttype"] = "none"  # same data, same file
    lines = -(-len(series) // COLUMNS)
    figure = Figure(figsize=(14, 2.5 * lines), layout="constrained")
    plots = figure.subplots(lines, COLUMNS, squeeze=False).flat
    for plot, (title, values) in zip(plots, series.items(), strict=False):
        plot.plot(sizes, values, color=_LINE, linewidth=2, marker="o", markersize=5)
        plot.set_title(title, fontsize=7.5, loc="left")
        plot.set_xscale("log")
        plot.set_xticks(sizes, map(str, sizes))
        plot.xaxis.set_minor_locator(NullLocator())
        plot.set_ylim(0, 1.15 * max(values) or 1)
        plot.grid(axis="y", color=_GRID, linewidth=0.8)
        plot.spines[["top", "right", "left"]].set_visible(False)
        plot.tick_params(length=0, labelsize=8, labelcolor=_TEXT)
    for plot in list(figure.axes)[len(series) :]:
        plot.set_visible(False)
    figure.supxlabel("agents", fontsize=9, color=_TEXT)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
