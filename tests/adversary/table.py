"""The table of attacks: what each one was, whether it held, with what figures.

A plugin of pytest, which `make adversary` loads: rows come from whatever tests are run. An attack's
title is the first line of its docstring, else its name; figures are what it notes by `figures`, or
by `record_property("figures", ...)`.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bed.cluster import ROOT

TABLE = ROOT / "build" / "adversary.md"
ATTACK, FIGURES, PLACE = "attack", "figures", "place"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each attack its title, and the place that the attacker stands at."""
    for item in items:
        text = (getattr(item, "function", None).__doc__ or "").strip().partition("\n")[0]
        if not text or text.startswith(("The finding of", "See ")):
            text = re.sub(r"^test_", "", item.name.partition("[")[0]).replace("_", " ")
        variant = f" [{item.callspec.id}]" if hasattr(item, "callspec") else ""
        item.user_properties += [
            (ATTACK, f"{text.rstrip('.')}{variant}"),
            (PLACE, re.sub(r"^test_", "", item.path.stem).replace("_", " ")),
        ]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table, and write it."""
    rows = sorted(_rows(terminalreporter))
    if not rows:
        return
    lines = ["| place | attack | result | figures |", "|---|---|---|---|", *rows]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n")
    terminalreporter.write_sep("=", f"attacks; the table is in {TABLE.relative_to(ROOT)}")
    for line in lines:
        terminalreporter.write_line(line)


def _rows(reporter: Any) -> Iterator[str]:
    outcomes = (("passed", "held"), ("failed", "**fell**"), ("error", "not run"), ("skipped", "-"))
    for outcome, word in outcomes:
        for report in reporter.getreports(outcome):
            if outcome == "passed" and report.when != "call":
                continue
            told = dict(report.user_properties)
            noted = "; ".join(text for name, text in report.user_properties if name == FIGURES)
            place, attack = told.get(PLACE, ""), told.get(ATTACK, report.nodeid)
            yield f"| {place} | {attack} | {word} | {noted} |"
