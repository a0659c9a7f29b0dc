"""Unit tests of `netplugin/world/services`, path for path."""
