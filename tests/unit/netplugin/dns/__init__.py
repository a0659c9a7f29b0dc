"""Unit tests of `netplugin/dns`, path for path."""
