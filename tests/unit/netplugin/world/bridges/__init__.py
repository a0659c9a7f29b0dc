"""Unit tests of `netplugin/world/bridges`, path for path."""
