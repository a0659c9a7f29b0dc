"""Tests of netctl without a server: its requests and its output."""
