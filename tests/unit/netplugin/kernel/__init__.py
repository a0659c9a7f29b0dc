"""Unit tests of `netplugin/kernel`, path for path."""
