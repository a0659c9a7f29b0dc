"""Unit tests of `netplugin/world/dns`, path for path."""
