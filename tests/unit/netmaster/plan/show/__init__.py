"""Unit tests of `netmaster/plan/show`, path for path."""
