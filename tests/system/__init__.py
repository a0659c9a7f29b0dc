"""Daemons as processes."""
