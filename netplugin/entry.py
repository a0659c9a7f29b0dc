"""The console script: imports the agent with Python's garbage collector disabled.

Imports create no garbage, and collections took a sixth of the time that a restart spends on them.
`daemons.collector` enables the collector again. Next: `netplugin.main`; for the commands of
`netplugin.commands.cni_files` and `netplugin.commands.enrol`, which run beside the agent and need
nothing of it, these alone.
"""

import gc
import sys
from typing import Final

from core import settings_directory

CNI_FILES: Final = ("install-cni", "keep-cni", "remove-cni")
ENROL: Final = "enrol"


def main() -> None:
    """Run the netplugin command; ends the process."""
    settings_directory.take_or_exit()
    if len(sys.argv) > 1 and sys.argv[1] in CNI_FILES:
        from netplugin.commands import cni_files  # noqa: PLC0415 - without the agent's modules

        sys.exit(cni_files.run(sys.argv[1:]))
    if len(sys.argv) > 1 and sys.argv[1] == ENROL:
        from netplugin.commands import enrol  # noqa: PLC0415 - without the agent's modules

        sys.exit(enrol.run(sys.argv[1:]))
    gc.disable()
    from netplugin import main as command  # noqa: PLC0415 - imported with the collector off

    command.main()
