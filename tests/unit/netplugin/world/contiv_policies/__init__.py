"""Unit tests of `netplugin/world/contiv_policies`, path for path."""
