"""Watches of objects: the log of recent changes, and the streams that read it."""
