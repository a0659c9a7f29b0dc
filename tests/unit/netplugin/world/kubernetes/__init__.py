"""Unit tests of `netplugin/world/kubernetes`, path for path."""
