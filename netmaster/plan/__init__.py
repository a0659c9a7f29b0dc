"""Decisions: the current view and an intent go in, writes and a reply come out. Pure."""
