"""Unit tests of `ofnet/pipelines/features`, path for path."""
