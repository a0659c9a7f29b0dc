"""A terminal is told that a command waits."""

import sys
from io import StringIO
from threading import Event

import pytest

from daemons import waiting


class Terminal(StringIO):
    """What is written to a terminal, and an event once somebody waits."""

    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self._terminal = terminal
        self.told = Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        self.told.set()
        return written


def test_a_wait_is_told_and_the_line_is_gone_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with waiting.waiting(0.001):
        with waiting.waiting(0.001):
            pass
        assert screen.told.wait(30)
    assert screen.getvalue().startswith("\rwaiting for an answer, 1 s ")
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_file_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal(terminal=False))
    with waiting.waiting(0.001):
        pass
    monkeypatch.setattr(sys, "stderr", None)
    with waiting.waiting(0.001):
        pass


def test_what_ends_soon_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with waiting.waiting(3600):
        pass
    assert screen.getvalue() == ""
