"""Unit tests of `netplugin/commands`, path for path."""
