"""Unit tests of `netplugin/pods`, path for path."""
