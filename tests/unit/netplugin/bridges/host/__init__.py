"""Unit tests of `netplugin/bridges/host`, path for path."""
