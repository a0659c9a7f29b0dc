"""The agent's routing table, what watches it, and how this host learns its own routes."""
