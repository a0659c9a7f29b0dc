"""Tests of `core.tracing`."""
