"""Unit tests of `netplugin/startup`, path for path."""
