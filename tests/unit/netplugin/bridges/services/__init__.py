"""Unit tests of `netplugin/bridges/services`, path for path."""
