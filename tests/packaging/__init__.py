"""Packages, installed in a root of their own: `make deb-check`."""
