"""Unit tests of `netplugin/kernel/firewall`, path for path."""
