"""The commands for hosts, addresses and changes of the whole cluster."""
