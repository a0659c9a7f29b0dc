"""Unit tests of `core/collections`, path for path."""
