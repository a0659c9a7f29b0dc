"""Tests of the drivers for docker."""
