"""Tests of `tests.e2e`' pure parts."""
