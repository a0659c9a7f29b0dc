"""Unit tests of `netplugin/trace`, path for path."""
