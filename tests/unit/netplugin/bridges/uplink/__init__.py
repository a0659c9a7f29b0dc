"""Unit tests of `netplugin/bridges/uplink`, path for path."""
