"""Unit tests of `netplugin/world`, path for path."""
