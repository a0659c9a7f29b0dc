"""Unit tests of `netplugin/bridges/vxlan`, path for path."""
