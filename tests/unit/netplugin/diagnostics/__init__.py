"""Unit tests of `netplugin/diagnostics`, path for path."""
