"""Unit tests of `netplugin/bgp`, path for path."""
