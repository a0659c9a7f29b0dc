"""The console script: takes variables from files, and imports the daemon.

Next: `netmaster.main`; for `netmaster.commands.default_network`, which waits beside a master as
long as that runs and needs nothing of it, that alone.
"""

import sys
from typing import Final

from core import settings_directory

DEFAULT_NETWORK: Final = "default-network"


def main() -> None:
    """Run the netmaster command; ends the process."""
    # some modules read the environment when they are imported
    settings_directory.take_or_exit()
    if sys.argv[1:2] == [DEFAULT_NETWORK]:
        from netmaster.commands import default_network  # noqa: PLC0415 - without the daemon

        sys.exit(default_network.run(sys.argv[2:]))
    from netmaster import main as command  # noqa: PLC0415 - after that

    command.main()
