"""The console script: takes variables from files, and imports the daemon.

Next: `netmaster.main`.
"""

import sys

from core import settings_directory


def main() -> None:
    """Run the netmaster command; ends the process."""
    # some modules read the environment when they are imported
    try:
        settings_directory.take()
    except (OSError, ValueError) as exc:
        sys.exit(f"{settings_directory.VARIABLE}: {exc}")
    from netmaster import main as command  # noqa: PLC0415 - after that

    command.main()
