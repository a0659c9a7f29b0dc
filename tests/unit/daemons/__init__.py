"""Unit tests of `daemons`, path for path."""
