"""Unit tests of `netmaster/plan/endpoints`, path for path."""
