"""Unit tests of `ofnet/packets`, path for path."""
