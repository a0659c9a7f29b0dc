"""The exit codes, most of them the original's, and its error line on stderr.

Commands raise CommandFailed; `netctl.main` prints it and exits.
"""

import re
from datetime import datetime
from typing import Final

USAGE: Final = 0
"""Wrong flags and unknown commands: the original ignores its CLI library's error and exits 0."""

SLIP: Final = 2
"""An unknown flag or command that resembles a known one, and any wrong flag of a new command."""

HELP: Final = 1
"""A wrong number of arguments, or a value refused before any request."""

FINDINGS: Final = 1
"""A check has findings; a traced packet is not delivered."""

VERSION: Final = 2
"""The server's version could not be read."""

REQUEST: Final = 3
"""netmaster refused the request or did not answer."""

IO: Final = 4
"""A local file or the terminal cannot be read or written."""

BEHIND: Final = 5
"""Not every host has applied all changes."""

INTERRUPTED: Final = 130
"""The exit code that a shell reports for a program ended by SIGINT."""

UNKNOWN_HINT: Final = "outcome unknown: the change may have been done; look, or run it again"
"""Printed after the original's error line if the answer to a change was lost."""

_BARE: Final = re.compile(r"[A-Za-z0-9.-]+")


class CommandFailed(Exception):
    """Ends a command with a message for stderr; `help_text` is for stdout."""

    def __init__(self, message: str, exit_code: int, *, help_text: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.help_text = help_text


def error_line(message: str, *, now: datetime, terminal: bool) -> str:
    """Return the message as the original's logger writes an error, with its newline.

    The trailing blank and the unescaped quotes are those of the logger.
    """
    if terminal:
        return f"\x1b[31mERRO\x1b[0m[0000] {message:<44} \n"
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    text = message if _BARE.fullmatch(message) else f'"{message}"'
    return f'time="{stamp}" level=error msg={text} \n'
