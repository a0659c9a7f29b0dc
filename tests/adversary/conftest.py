"""The table of attacks: what each one was, whether it held, with what figures."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.bed.cluster import ROOT
from tests.system.conftest import bed, flags, hosts, no_pods_left  # noqa: F401 - fixtures

TABLE = ROOT / "build" / "adversary.md"
ATTACK, FIGURES = "attack", "figures"


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Note a figure of this attack for its row."""
    return lambda figure: request.node.user_properties.append((FIGURES, figure))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each attack its title."""
    for item in items:
        text = (getattr(item, "function", None).__doc__ or item.name).strip().partition("\n")[0]
        variant = f" [{item.callspec.id}]" if hasattr(item, "callspec") else ""
        item.user_properties.append((ATTACK, f"{text.rstrip('.')}{variant}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table, and write it."""
    rows = list(_rows(terminalreporter))
    if not rows:
        return
    lines = ["| attack | result | figures |", "|---|---|---|", *rows]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n")
    terminalreporter.write_sep("=", f"attacks; the table is in {TABLE.relative_to(ROOT)}")
    for line in lines:
        terminalreporter.write_line(line)


def _rows(reporter: Any) -> Iterator[str]:
    for outcome, word in (("passed", "held"), ("failed", "**fell**"), ("error", "not run")):
        for report in reporter.getreports(outcome):
            if outcome == "passed" and report.when != "call":
                continue
            told = dict(report.user_properties)
            noted = "; ".join(text for name, text in report.user_properties if name == FIGURES)
            yield f"| {told.get(ATTACK, report.nodeid)} | {word} | {noted} |"
