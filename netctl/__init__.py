"""The command line client: `netctl.main`, one module per command under `netctl.commands`."""
