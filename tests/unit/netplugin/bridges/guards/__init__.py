"""Unit tests of `netplugin/bridges/guards`, path for path."""
