"""Unit tests of `netmaster/external`, path for path."""
