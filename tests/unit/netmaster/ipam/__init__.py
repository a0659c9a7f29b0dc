"""Tests of address and tag allocation."""
