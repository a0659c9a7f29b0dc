"""One module per command of netctl: its subcommands, their flags, checks and tables.

`objects` has the commands for what is configured and inspected, `cluster` those for hosts and the
whole cluster, `diagnostics` those that look for faults.
"""
