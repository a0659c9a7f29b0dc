"""Recorded answers of the original."""
