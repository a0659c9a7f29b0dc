"""The endpoints of the cluster: one table, and those on this host's bridges. Pure."""
