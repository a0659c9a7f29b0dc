"""What is well is green, what is not red, and nothing where colours are not wanted."""

import pytest

from netctl.colours import told


def test_what_is_well_is_green_and_what_is_not_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert told("delivered", well=True) == "\x1b[32mdelivered\x1b[0m"
    assert told("dropped", well=False) == "\x1b[31mdropped\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert told("dropped", well=False) == "dropped"
