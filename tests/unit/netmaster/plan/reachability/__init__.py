"""Unit tests of `netmaster/plan/reachability`, path for path."""
