"""Unit tests of `netplugin/asking`, path for path."""
