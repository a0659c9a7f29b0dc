"""Unit tests of netmaster."""
