"""Accounts of pods and groups."""
