"""The line on stderr has the form of the original's logger."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from netctl.failure import error_line

NOON = datetime(2026, 11, 20, 12, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("tenant not found\n", '"tenant not found\n"'),
        ('Get "http://x": EOF', '"Get "http://x": EOF"'),
        ("EOF", "EOF"),
        ("", '""'),
    ],
)
def test_a_pipe_gets_time_level_and_text(message: str, shown: str) -> None:
    line = error_line(message, now=NOON, terminal=False)
    assert line == f'time="2026-11-20T12:00:00Z" level=error msg={shown} \n'


def test_the_time_is_local() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))
    line = error_line("x", now=there, terminal=False)
    assert line.startswith('time="2026-11-20T14:00:00+02:00" ')


def test_a_terminal_gets_colour() -> None:
    line = error_line("no", now=NOON, terminal=True)
    assert line == f"\x1b[31mERRO\x1b[0m[0000] {'no':<44} \n"
