"""Unit tests of `netplugin/flow_records`, path for path."""
