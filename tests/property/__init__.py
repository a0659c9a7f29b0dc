"""Hypothesis."""
