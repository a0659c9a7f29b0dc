"""Unit tests of `netplugin/kernel/netlink`, path for path."""
