"""Unit tests of `netplugin/bridges`, path for path."""
