"""The CNI binary as a module."""
