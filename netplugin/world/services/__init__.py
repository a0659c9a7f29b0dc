"""Services and their providers, on each bridge of this host. Pure."""
