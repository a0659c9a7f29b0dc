"""How a command fails: the exit codes of the original and the line on stderr.

Commands raise CommandFailed; `netctl.main` prints it and exits.
"""

import re
from datetime import datetime
from typing import Final

USAGE: Final = 0
"""Wrong flags and unknown commands. The original forgets its CLI library's error and so exits 0."""

HELP: Final = 1
"""A wrong number of arguments, or a value refused before anything is sent."""

FINDINGS: Final = 1
"""A check found something."""

VERSION: Final = 2
"""The server's version could not be had."""

REQUEST: Final = 3
"""netmaster refused the request or did not answer."""

IO: Final = 4
"""A local file cannot be read."""

BEHIND: Final = 5
"""Not every host has applied all that was changed."""

INTERRUPTED: Final = 130
"""What a shell reports of a program that SIGINT ended."""

_BARE: Final = re.compile(r"[A-Za-z0-9.-]+")


class CommandFailed(Exception):
    """A command ends here; a help text is for stdout."""

    def __init__(self, message: str, exit_code: int, *, help_text: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.help_text = help_text


def error_line(message: str, *, now: datetime, terminal: bool) -> str:
    """Return the message as the original's logger writes an error, newline included.

    The trailing blank and the unescaped quotes are the logger's own.
    """
    if terminal:
        return f"\x1b[31mERRO\x1b[0m[0000] {message:<44} \n"
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    text = message if _BARE.fullmatch(message) else f'"{message}"'
    return f'time="{stamp}" level=error msg={text} \n'
