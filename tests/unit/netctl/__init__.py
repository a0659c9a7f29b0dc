"""Tests of netctl without a server: what it asks, and what it prints."""
