"""Unit tests of `netplugin/world/cluster_endpoints`, path for path."""
