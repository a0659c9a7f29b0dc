"""Unit tests of `netplugin/pods/registry`, path for path."""
