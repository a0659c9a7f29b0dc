"""Unit tests of `ofnet/pipelines/packet_path`, path for path."""
