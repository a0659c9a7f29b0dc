"""The agent as a process, as far as it needs no switch."""
