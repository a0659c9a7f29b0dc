"""Unit tests of `netmaster/plan/external`, path for path."""
