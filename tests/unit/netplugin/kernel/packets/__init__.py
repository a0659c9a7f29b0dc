"""Unit tests of `netplugin/kernel/packets`, path for path."""
