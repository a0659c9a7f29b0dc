"""Unit tests of `netmaster/commits`, path for path."""
