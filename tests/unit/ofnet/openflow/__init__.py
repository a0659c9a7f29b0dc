"""Unit tests of `ofnet/openflow`, path for path."""
