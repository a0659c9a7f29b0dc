"""Unit tests of `netmaster/plan/objects`, path for path."""
