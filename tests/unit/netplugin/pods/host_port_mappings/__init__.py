"""Unit tests of `netplugin/pods/host_port_mappings`, path for path."""
