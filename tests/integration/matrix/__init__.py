"""Roots of other releases of Debian."""
