"""Unit tests of contivmodel."""
