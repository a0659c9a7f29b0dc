"""Unit tests of `netmaster/commands`, path for path."""
