"""Unit tests of `core/net`, path for path."""
