"""The console script: imports the agent with Python's garbage collector disabled.

Imports create no garbage, and collections took a sixth of the time that a restart spends on them.
`daemons.collector` enables the collector again. Next: `netplugin.main`.
"""

import gc


def main() -> None:
    """Run the netplugin command; ends the process."""
    gc.disable()
    from netplugin import main as command  # noqa: PLC0415 - imported with the collector off

    command.main()
