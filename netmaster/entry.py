"""The console script: takes variables from files, and imports the daemon.

Next: `netmaster.main`.
"""

from core import settings_directory


def main() -> None:
    """Run the netmaster command; ends the process."""
    # some modules read the environment when they are imported
    settings_directory.take_or_exit()
    from netmaster import main as command  # noqa: PLC0415 - after that

    command.main()
