"""Packages, installed in a root of their own: `make install-check`."""
