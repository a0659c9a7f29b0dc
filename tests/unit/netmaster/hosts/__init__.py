"""Unit tests of `netmaster/hosts`, path for path."""
