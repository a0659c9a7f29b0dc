"""Unit tests of `netmaster/takeover`, path for path."""
