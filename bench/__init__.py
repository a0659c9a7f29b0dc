"""Benchmarks: make bench prints what, ours, reference, ratio."""
