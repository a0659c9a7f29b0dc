"""One module per command of netctl: its subcommands, their flags, checks and tables."""
