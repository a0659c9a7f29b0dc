"""Tests of `tests.breaks`."""
