"""Unit tests of `netplugin/masters`, path for path."""
