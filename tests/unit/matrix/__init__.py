"""Tests of `tests.matrix`."""
