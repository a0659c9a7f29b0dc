"""The console script. It loads the agent without looking for garbage meanwhile: there is none.

A restart waits for nothing but the loading at first, and a sixth of that was collections.
`daemons.collector` turns them on again. Next: `netplugin.main`.
"""

import gc


def main() -> None:
    """Run the netplugin command; ends the process."""
    gc.disable()
    from netplugin import main as command  # noqa: PLC0415 - this is the loading

    command.main()
