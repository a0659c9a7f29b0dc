"""Unit tests of `netplugin/kernel/routes`, path for path."""
