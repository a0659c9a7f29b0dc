"""Unit tests of `ofnet/rpc`, path for path."""
