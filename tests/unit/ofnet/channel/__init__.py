"""Unit tests of `ofnet/channel`, path for path."""
