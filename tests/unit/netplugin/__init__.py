"""The agent, without I/O."""
