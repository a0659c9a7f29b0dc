"""Unit tests of `ofnet/services`, path for path."""
