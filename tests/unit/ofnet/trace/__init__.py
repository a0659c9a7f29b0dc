"""Unit tests of `ofnet/trace`, path for path."""
